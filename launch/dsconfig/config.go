// SPDX-License-Identifier: Apache-2.0

// Package dsconfig reads a DeepSpeed configuration as a given release of DeepSpeed does. It parses
// Hjson and knows the settings of the release, the values that pydantic refuses, the rules between
// settings, and the extensions that DeepSpeed will compile.
//
// The package gets the text and opens no file. The checks decide whether a problem matters.
package dsconfig

import (
	"fmt"
	"path"
	"slices"

	"preflight/hostfile"
)

// Config is what a DeepSpeed configuration means for the launch. Numbers are nil if they are
// missing or "auto".
type Config struct {
	Path string `json:"path"`
	// Problems lists settings that end the launch or the training and settings without effect, in
	// DeepSpeed's own order.
	Problems     []Problem `json:"problems,omitempty"`
	TrainBatch   *int      `json:"train_batch_size,omitempty"`
	MicroBatch   *int      `json:"train_micro_batch_size_per_gpu,omitempty"`
	Accumulation *int      `json:"gradient_accumulation_steps,omitempty"`
	ZeroStage    int       `json:"zero_stage"`
	// Offload lists the places to which ZeRO moves optimizer states and parameters.
	Offload []Offload `json:"offload,omitempty"`
	// NodeLocal is checkpoint.use_node_local_storage: each node keeps its own checkpoints.
	NodeLocal bool `json:"node_local,omitempty"`
	// Ops lists the extensions that DeepSpeed compiles on first use, with DeepSpeed's names for
	// them: cpu_adam, fused_adam, async_io.
	Ops []string `json:"ops,omitempty"`
}

// Offload is one target of ZeRO-Offload or ZeRO-Infinity.
type Offload struct {
	What   string `json:"what"`   // optimizer or param
	Device string `json:"device"` // cpu or nvme
	// Path is the directory for nvme, as written. A relative path depends on the directory of each
	// rank.
	Path string `json:"path,omitempty"`
}

// Problem is a setting of a DeepSpeed configuration that does not do what it seems to do.
type Problem struct {
	Key      string `json:"key"`   // "zero_optimization.stage", "" for the file as a whole
	Fatal    bool   `json:"fatal"` // the training fails; otherwise the setting is silently ignored
	Message  string `json:"message"`
	Original string `json:"said,omitempty"` // DeepSpeed's own message
}

// Read reads a DeepSpeed configuration as the given release does, "" for the newest. worldSize is
// the number of ranks, 0 if unknown. Read does not check batch sizes if worldSize is 0 or the
// configuration splits the model. For a file that cannot be read, the result has one problem and
// nothing else. Read returns nil if it is unknown what the release reads from the file.
//
// Read does not check the value "auto", because Hugging Face's Trainer and accelerate replace it
// before DeepSpeed sees it.
//
// Source: deepspeed/runtime/config.py, DeepSpeedConfig, 0.7.0 to 0.19.8, and runtime/engine.py,
// _configure_optimizer.
func Read(file File, deepspeed string, worldSize int) *Config {
	read := &reader{release: deepspeed, worldSize: worldSize, config: &Config{Path: file.Path}}
	root, problem := parse(file, deepspeed)
	if problem != nil {
		read.config.Problems = []Problem{*problem}
		return read.config
	}
	if root == nil {
		return nil
	}
	read.root = root
	read.config.NodeLocal = root.object("checkpoint").get("use_node_local_storage") == true
	for _, step := range []func(*reader){
		(*reader).removedKeys, (*reader).elasticity, (*reader).dataTypes, (*reader).sections,
		(*reader).batch, (*reader).masterWeights, (*reader).optimizer, (*reader).offload,
		(*reader).ops, (*reader).unknownKeys,
	} {
		step(read)
	}
	return read.config
}

// reader goes through a configuration in DeepSpeed's order. DeepSpeed ends at the first error, but
// reader continues, so that users can fix all problems at once.
type reader struct {
	release   string
	worldSize int
	root      *object
	config    *Config
}

// fatal adds a problem that ends the training. original is the exception as Python prints it.
func (r *reader) fatal(key, original, format string, values ...any) {
	r.config.Problems = append(r.config.Problems, Problem{Key: key, Fatal: true, Message: fmt.Sprintf(format, values...), Original: original})
}

// ignored adds a setting that has no effect.
func (r *reader) ignored(key, format string, values ...any) {
	r.config.Problems = append(r.config.Problems, Problem{Key: key, Message: fmt.Sprintf(format, values...)})
}

// failed reports whether DeepSpeed has already ended because of a key or a key below it.
func (r *reader) failed(key string) bool {
	return slices.ContainsFunc(r.config.Problems, func(p Problem) bool {
		return p.Fatal && (p.Key == key || len(p.Key) > len(key) && p.Key[:len(key)+1] == key+".")
	})
}

func (r *reader) since(release string) bool { return !hostfile.Before(r.release, release) }

// removedKeys reports keys that DeepSpeed refuses by name since 0.19.7, before it reads anything
// else.
func (r *reader) removedKeys() {
	for _, gone := range tables().Removed {
		section, key := r.root, gone.Name
		if gone.Section != "" {
			section, key = r.root.object(gone.Section), gone.Section+"."+gone.Name
		}
		if section.has(gone.Name) && r.since(gone.Since) {
			r.fatal(key, "deepspeed.runtime.config.DeepSpeedConfigError: "+gone.Says,
				"%q was removed in DeepSpeed %s, which refuses the file: remove it, or use an older release", key, gone.Since)
		}
	}
}

// elasticity reports batch sizes that conflict with the elasticity section, which sets the batch
// sizes itself. DeepSpeed 0.19.8 removed the section.
func (r *reader) elasticity() {
	section := r.root.object("elasticity")
	if r.since("0.19.8") || section.get("enabled") != true || section.get("ignore_non_elastic_batch_info") == true {
		return
	}
	for _, key := range batchKeys {
		if r.root.has(key) {
			r.fatal("elasticity", "deepspeed.elasticity.config.ElasticityConfigError: One or more batch related parameters were found in your ds_config (train_batch_size, "+
				"train_micro_batch_size_per_gpu, and/or gradient_accumulation_steps). These parameters *will not be used* since elastic training is enabled, "+
				"which takes control of these parameters.",
				"elasticity sets the batch sizes, but %s is also given: remove it, or set elasticity.ignore_non_elastic_batch_info", key)
			return
		}
	}
}

// offload records the places to which ZeRO moves states, and reports offload settings that have no
// effect.
func (r *reader) offload() {
	zero := r.root.object("zero_optimization")
	stage := r.config.ZeroStage
	for _, what := range []string{"optimizer", "param"} {
		key := "offload_" + what
		place := Offload{What: what, Device: offloadDevice(zero, what)}
		if place.Device == "" || r.failed("zero_optimization."+key) {
			continue
		}
		where := "zero_optimization." + key
		needed := map[string]int{"optimizer": 1, "param": 3}[what]
		if stage < needed {
			r.ignored(where, "%s has no effect with ZeRO stage %d: it needs stage %d", where, stage, needed)
			continue
		}
		if place.Device == "nvme" && stage < 3 {
			r.ignored(where+".device", "only ZeRO stage 3 uses NVMe: with stage %d the optimizer's states go to the CPU's memory", stage)
			place.Device = "cpu"
		}
		if place.Device == "nvme" {
			if place.Path = r.nvmePath(zero.object(key), where); place.Path == "" {
				continue
			}
		}
		r.config.Offload = append(r.config.Offload, place)
	}
}

func (r *reader) nvmePath(section *object, where string) string {
	named, isText := section.get("nvme_path").(string)
	switch {
	case named == "auto":
		return ""
	case !isText:
		r.fatal(where+".nvme_path", "TypeError: expected str, bytes or os.PathLike object, not NoneType",
			"%s has no nvme_path, the directory for the states", where)
		return ""
	}
	return path.Clean(named)
}

// offloadDevice returns cpu, nvme or "" from the offload section, or from the older flag that the
// section replaced.
func offloadDevice(zero *object, what string) string {
	old := map[string]string{"optimizer": "cpu_offload", "param": "cpu_offload_param"}[what]
	if zero.get(old) == true {
		return "cpu"
	}
	if device, _ := zero.object("offload_" + what).get("device").(string); device == "cpu" || device == "nvme" {
		return device
	}
	return ""
}
