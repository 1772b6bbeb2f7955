// SPDX-License-Identifier: Apache-2.0

//go:build oracle

package oracle_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-multierror"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/launch/args"
	"preflight/probe"
)

// predictor returns preflight's prediction for a command. It writes the files, reads the
// environment as the probe does, reads the command and the hostfile, and predicts the launch.
type predictor struct {
	t       *testing.T
	version string
	root    string
	told    *strings.Replacer // replaces values that are known only when the command starts
}

// newPredictor changes the working directory and the environment of this process until the test
// ends.
func newPredictor(t *testing.T, version, root string) predictor {
	t.Helper()
	environ := os.Environ()
	t.Cleanup(func() {
		os.Clearenv()
		for _, entry := range environ {
			name, value, _ := strings.Cut(entry, "=")
			_ = os.Setenv(name, value) // restores the earlier value
		}
	})
	work := filepath.Join(root, "work")
	if err := os.MkdirAll(work, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(work)
	told := strings.NewReplacer("$MASTER_ADDR", "10.9.8.7", "$DEEPSPEED", filepath.Join(oracleHome(), "deepspeed", version, "deepspeed"))
	return predictor{t: t, version: version, root: root, told: told}
}

func (p predictor) predict(c command) outcome {
	p.plant(c.Files)
	os.Clearenv()
	for name, value := range c.Env {
		if err := os.Setenv(name, value); err != nil {
			p.t.Fatal(err)
		}
	}
	var o outcome
	typed, err := args.Parse(append([]string{"deepspeed"}, c.Argv...), p.version, args.Surroundings{Getenv: os.Getenv, ReadFile: os.ReadFile})
	if err != nil {
		o.Refused = deepspeedMessage(err)
		return o
	}
	o.Parsed = parsedOf(typed)
	head := p.look(c)
	if problem := envFileProblem(launch.AppliedEnvFiles(head.Launcher.EnvFiles, p.version)); problem != nil {
		o.EnvFile = deepspeedMessage(problem)
	}
	prediction, err := p.launch(typed, c, head)
	if err != nil {
		o.Refused = deepspeedMessage(err)
		return o
	}
	if len(prediction.Command) > 0 && prediction.Command[0] != c.Python {
		o.Refused = o.EnvFile // a launch on this machine alone reads no such file
	}
	for _, host := range prediction.Hosts {
		o.Hosts = append(o.Hosts, activeHost{host.Name, host.Slots})
	}
	for _, word := range prediction.Command {
		o.Command = append(o.Command, p.told.Replace(word))
	}
	o.Local = prediction.Local || prediction.NoSSH // the only node is this machine
	o.Changed = map[string]string{}
	for _, s := range prediction.CommandEnv {
		o.Changed[s.Name] = s.Value
	}
	return o
}

// launch predicts a launch in the same steps as preflight.NewPlan.
func (p predictor) launch(typed args.Typed, c command, head *facts.Node) (launch.Prediction, error) {
	if err := typed.Refused(); err != nil {
		return launch.Prediction{}, err
	}
	options := typed.Options
	options.DeepSpeed, options.Accelerator, options.Interpreter = p.version, c.Accelerator, c.Python
	options.WorkDir = filepath.Join(p.root, "work")
	var err error
	if info, statErr := os.Stat(typed.Hostfile); statErr == nil && info.Mode().IsRegular() {
		options.Hosts, options.Notes, err = hostfile.ReadFile(typed.Hostfile, p.version)
	} else {
		options, err = options.WithoutHostfile(head)
	}
	if err != nil {
		return launch.Prediction{}, err
	}
	return launch.Predict(options, head)
}

// envFileProblem returns the first line of the files that ends a launch. Predict leaves such lines
// to the check launcher-env.
func envFileProblem(files []facts.EnvFile) error {
	for _, file := range files {
		_, problems := launch.ParseEnvFile(file)
		for i := range problems {
			if problems[i].DeepSpeed != "" {
				return &problems[i]
			}
		}
	}
	return nil
}

// look returns the facts that the probe finds on the launching machine.
func (p predictor) look(c command) *facts.Node {
	head := &facts.Node{}
	options := probe.Options{WorkDir: filepath.Join(p.root, "work")}
	sections := []facts.Section{facts.SectionLauncher, facts.SectionEnv}
	probe.Run(context.Background(), options, sections, func(section facts.Section, seen facts.Facts, missing string) {
		if missing != "" {
			p.t.Errorf("%s: %s", section, missing)
		}
		head.Take(section, seen)
	})
	head.GPU = &facts.GPU{}
	head.Host = &facts.Host{}
	for i := range c.Devices {
		if c.Accelerator == "cuda" {
			head.GPU.Devices = append(head.GPU.Devices, fmt.Sprintf("/dev/nvidia%d", i))
		} else {
			head.Host.NUMA = append(head.Host.NUMA, facts.NUMA{ID: i, CPUs: fmt.Sprint(i)})
		}
	}
	return head
}

// plant writes the files of the command, and removes the files of the previous command.
func (p predictor) plant(files map[string][]byte) {
	for _, directory := range []string{"home", "work"} {
		entries, err := os.ReadDir(filepath.Join(p.root, directory))
		for _, entry := range entries {
			err = errors.Join(err, os.RemoveAll(filepath.Join(p.root, directory, entry.Name())))
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
	for path, text := range files {
		path = filepath.Join(p.root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o644)); err != nil {
			p.t.Fatal(err)
		}
	}
}

// deepspeedMessage returns the first message that DeepSpeed itself prints for an error, or
// preflight's message if DeepSpeed would continue.
func deepspeedMessage(err error) string {
	if many, ok := errors.AsType[*multierror.Error](err); ok {
		err = many.Errors[0]
		// Python decodes the whole file before it reads a line.
		if i := slices.IndexFunc(many.Errors, undecodable); i > 0 {
			err = many.Errors[i]
		}
	}
	var said string
	if usage, ok := errors.AsType[*launch.UsageError](err); ok {
		said = usage.Original
	} else if line, ok := errors.AsType[*hostfile.LineError](err); ok {
		said = line.DeepSpeed
	} else if filter, ok := errors.AsType[*hostfile.FilterError](err); ok {
		said = filter.DeepSpeed
	}
	return cmp.Or(said, ownWords+err.Error())
}

func undecodable(err error) bool {
	line, ok := errors.AsType[*hostfile.LineError](err)
	return ok && strings.HasPrefix(line.DeepSpeed, "UnicodeDecodeError")
}

// ownWords is the beginning of messages that only preflight has.
const ownWords = "preflight: "

// parsedOf converts preflight's options back to those of argparse.
func parsedOf(o args.Typed) *parsedArgs {
	limit := func(l hostfile.Limit) int {
		if !l.Given {
			return -1
		}
		return l.N
	}
	return &parsedArgs{
		Hostfile: o.Hostfile, Include: o.Filter.Include, Exclude: o.Filter.Exclude,
		NumNodes: limit(o.Filter.NumNodes), NumGPUs: limit(o.Filter.NumGPUs), ForceMulti: o.Filter.ForceMulti,
		MasterAddr: o.MasterAddr, MasterPort: cmp.Or(o.MasterPort, launch.DefaultMasterPort),
		Launcher: cmp.Or(o.Launcher, launch.DefaultLauncher), LauncherArgs: o.LauncherArgs,
		NoSSH: o.NoSSH, NoSSHCheck: o.NoSSHCheck, NodeRank: o.NodeRank, SSHPort: o.SSHPort,
		ElasticTraining: o.Elastic, MinElasticNodes: o.MinElastic, MaxElasticNodes: o.MaxElastic,
		UserScript: o.Script, UserArgs: o.Arguments, Module: o.Module, NoPython: o.NoPython, NoLocalRank: o.NoLocalRank,
		SavePID: o.SavePID, EnableEachRankLog: cmp.Or(o.EachRankLog, "None"), Autotuning: o.Autotuning, VenvScript: o.VenvScript,
		BindCoresToRank: o.BindCores, BindCoreList: o.CoreList, LogLevel: cmp.Or(o.LogLevel, "info"), Quiet: o.Quiet,
	}
}
