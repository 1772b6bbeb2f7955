// SPDX-License-Identifier: Apache-2.0

package dsconfig

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"preflight/hostfile"
)

// violation is one line of pydantic's error. key is "" for the whole section.
type violation struct {
	key, text string
	message   string // preflight's own wording
}

// sections checks the sections of the file in DeepSpeed's order. DeepSpeed ends at the first
// section in which pydantic finds a mistake.
func (r *reader) sections() {
	for _, top := range tables().Settings {
		value, given := r.root.values[top.Name]
		if !given || top.Holds == nil || !r.knows(top) || top.Name == "bfloat16" && r.root.values["bf16"] != nil {
			continue
		}
		if value, given = normalized(top.Name, value); !given {
			continue
		}
		object, isObject := value.(*object)
		if !isObject {
			r.noObject(top, value)
			continue
		}
		if r.isStrict(top.Holds) {
			r.refuse(top.Name, top.Holds, object)
		}
		switch top.Name {
		case "zero_optimization":
			r.zero(object)
		case "bf16", "bfloat16":
			r.precision(object)
		case "flops_profiler":
			r.profiler(object)
		case "checkpoint":
			r.checkpoint(object)
		}
	}
}

// normalized returns a section as DeepSpeed reads it. zero_optimization may also be true or false,
// and for some sections null means that the section is missing.
func normalized(name string, value any) (section any, given bool) {
	if enabled, isFlag := value.(bool); name == "zero_optimization" && isFlag {
		return &object{names: []string{"stage"}, values: map[string]any{"stage": map[bool]int{true: 1}[enabled]}}, true
	}
	return value, value != nil || !slices.Contains([]string{"aio", "bf16", "compile"}, name)
}

func (r *reader) noObject(top setting, value any) {
	name := pythonType(value)
	original := fmt.Sprintf("AttributeError: '%s' object has no attribute 'get'", name)
	if r.isStrict(top.Holds) {
		original = fmt.Sprintf("TypeError: %s() argument after ** must be a mapping, not %s", top.Holds.Model, name)
	}
	r.fatal(top.Name, original, "%s must be an object: write %q: { … }", top.Name, top.Name)
}

// isStrict reports whether the release refuses unknown settings of the section.
func (r *reader) isStrict(s *section) bool {
	return s.Model != "" && (s.Strict == "" || r.since(s.Strict))
}

func (r *reader) knows(s setting) bool { return hostfile.Within(r.release, s.Since, s.Until) }

// refuse reports pydantic's error for a section. One exception lists all mistakes of the section.
func (r *reader) refuse(name string, s *section, o *object) {
	mistakes := r.violations(s, o, "")
	if len(mistakes) == 0 {
		mistakes = r.contradictions(s, o)
	}
	if s.Monitor && len(mistakes) > 0 && r.pydantic1() && r.since("0.8.1") {
		// Here DeepSpeed's parent class continues after pydantic's error and fails later.
		r.fatal(name, "AttributeError: 'NoneType' object has no attribute 'enabled'", "%s.%s: %s", name, mistakes[0].key, mistakes[0].message)
		return
	}
	model, prefix := s.Model, ""
	if s.Monitor && r.since("0.8.1") {
		model, prefix = "DeepSpeedMonitorConfig", name+"."
	}
	exception, plural := "pydantic_core._pydantic_core.ValidationError", "s"
	if r.pydantic1() {
		exception = "pydantic.error_wrappers.ValidationError"
	}
	if len(mistakes) == 1 {
		plural = ""
	}
	for _, m := range mistakes {
		key, line := name, m.text
		if m.key != "" {
			key += "." + m.key
			line = prefix + m.key + ": " + m.text
		}
		r.fatal(key, fmt.Sprintf("%s: %d validation error%s for %s: %s", exception, len(mistakes), plural, model, line), "%s: %s", key, m.message)
	}
}

// pydantic1 reports whether the release prints the error messages of pydantic 1. They come from
// pydantic 1 itself or from the copy of it in pydantic 2.
func (r *reader) pydantic1() bool { return hostfile.Before(r.release, "0.15.0") }

// violations returns pydantic's errors for a section. Errors of known settings come first, in the
// order of the settings. Unknown settings follow in the order of the file, or sorted with pydantic
// 1.
func (r *reader) violations(s *section, o *object, at string) []violation {
	var found []violation
	known := map[string]bool{}
	for _, setting := range s.Settings {
		if !r.knows(setting) {
			continue
		}
		for _, name := range []string{setting.Name, setting.Field} {
			known[name] = true
			value, given := o.values[name]
			if !given || value == "auto" {
				continue
			}
			if r.pydantic1() {
				name = setting.Name // the error names the alias, even if the file has another name
			}
			found = append(found, r.violationsOf(setting, at+name, value)...)
			break
		}
	}
	names := o.names
	if r.pydantic1() {
		names = slices.Sorted(slices.Values(names))
	}
	for _, name := range names {
		if known[name] || o.values[name] == "auto" {
			continue
		}
		text := "Extra inputs are not permitted"
		if r.pydantic1() {
			text = "extra fields not permitted"
		}
		found = append(found, violation{at + name, text, r.unknown(s.Settings, name) + ", and it refuses the file"})
	}
	return found
}

func (r *reader) violationsOf(s setting, at string, value any) []violation {
	if value == nil && s.None {
		return nil
	}
	old, new := "", ""
	if section := s.Holds; section != nil {
		if object, isObject := value.(*object); isObject {
			return r.violations(section, object, at+".")
		}
		old, new = checkDict(value)
		new += " or instance of " + section.Model
	} else if s.Is != nil {
		old, new = s.Is(value)
	}
	original := new
	if r.pydantic1() {
		original = old
		if value == nil {
			original = "none is not an allowed value"
		}
	}
	if original == "" {
		return nil
	}
	return []violation{{at, original, "the value " + pythonRepr(value) + " is refused (" + original + ")"}}
}

// contradictions returns the first error of a section as a whole. pydantic looks for these errors
// only if each setting of the section is valid by itself.
//
// Source: deepspeed/runtime/zero/config.py and precision_config.py, the validators of whole classes
// (that of 0.14 and before never applied).
func (r *reader) contradictions(s *section, o *object) []violation {
	at := stageOf(o)
	switch {
	case r.pydantic1():
	case s == sectionNamed("zero_optimization") && o.has("compute_grad_norm") && !r.on(s, o, "compute_grad_norm") && at != 1 && at != 2:
		return []violation{{"", "Value error, compute_grad_norm=false is supported only with ZeRO Stage 1 or 2", "compute_grad_norm can be false only with stage 1 or 2"}}
	case s == sectionNamed("zero_optimization") && at != 3 && o.object("offload_optimizer").has("ratio"):
		ratio := o.object("offload_optimizer").get("ratio")
		if n, _, _ := parseNumber(ratio, false); ratio != "auto" && n < 1 {
			return []violation{{"", "Assertion failed, Partial offloading only supported for ZeRO Stage 3.", "offload_optimizer.ratio below 1 needs stage 3"}}
		}
	case s == sectionNamed("fp16") && r.since("0.19.3") && r.on(s, o, "enabled"):
		scale, _, _ := parseNumber(o.values["loss_scale"], false)
		for _, name := range []string{"loss_scale_window", "min_loss_scale"} {
			n, _, _ := parseNumber(o.values[name], true)
			if o.has(name) && o.values[name] != "auto" && scale == 0 && n <= 0 {
				text := "fp16." + name + " must be > 0 when dynamic loss scaling is enabled (loss_scale=0)"
				return []violation{{"", "Value error, " + text, text}}
			}
		}
	}
	return nil
}

// on reports whether a flag is set. It follows pydantic's rules if DeepSpeed has a class for the
// section, otherwise Python's rules for true and false values.
func (r *reader) on(s *section, o *object, name string) bool {
	value := o.get(name)
	if r.isStrict(s) {
		on, _ := parseFlag(value)
		return on
	}
	switch v := value.(type) {
	case *object:
		return len(v.names) > 0
	case []any:
		return len(v) > 0
	}
	return value != nil && value != false && value != 0 && value != ""
}

func stageOf(zero *object) int {
	n, _, _ := parseNumber(zero.values["stage"], false)
	return int(n)
}

// zero reads the ZeRO stage, and reports a deprecated key that is given together with the key that
// replaced it (config_utils.py, _process_deprecated_field).
func (r *reader) zero(o *object) {
	if r.failed("zero_optimization") {
		return
	}
	r.config.ZeroStage = stageOf(o)
	for _, twin := range [][2]string{
		{"cpu_offload_param", "offload_param"}, {"cpu_offload", "offload_optimizer"},
		{"stage3_gather_fp16_weights_on_model_save", "gather_16bit_weights_on_model_save"},
	} {
		if o.has(twin[0]) && (o.has(twin[1]) || o.has("stage3_"+twin[1])) {
			r.fatal("zero_optimization."+twin[0],
				fmt.Sprintf("AssertionError: Cannot provide deprecated parameter '%s' and replacing parameter '%s' together", twin[0], twin[1]),
				"zero_optimization.%s was replaced by %s, and both are given: remove the old one", twin[0], twin[1])
		}
	}
}

// precision reports a problem if fp16 and bf16 are both enabled.
func (r *reader) precision(bf16 *object) {
	if r.on(sectionNamed("fp16"), r.root.object("fp16"), "enabled") && r.on(sectionNamed("bf16"), bf16, "enabled") && !r.failed("fp16") && !r.failed("bf16") {
		r.fatal("bf16.enabled", "AssertionError: bfloat16 and fp16 modes cannot be simultaneously enabled",
			"bf16 and fp16 are both enabled: set one of them to false")
	}
}

// unknownKeys reports keys that DeepSpeed silently ignores: usually spelling mistakes or keys of
// another release. Keys that look like comments are not reported.
func (r *reader) unknownKeys() {
	r.ignoredKeys(tables().Settings, r.root, "")
	for _, top := range tables().Settings {
		below := r.root.object(top.Name)
		if below != nil && top.Holds != nil && r.knows(top) && !r.isStrict(top.Holds) {
			r.ignoredKeys(top.Holds.Settings, below, top.Name+".")
		}
	}
}

func (r *reader) ignoredKeys(settings []setting, o *object, at string) {
	for _, name := range o.names {
		isKnown := slices.ContainsFunc(settings, func(s setting) bool { return (s.Name == name || s.Field == name) && r.knows(s) })
		if !isKnown && !r.failed(at+name) && !isComment(name) {
			r.ignored(at+name, "%s: %s, and silently ignores it", at+name, r.unknown(settings, name))
		}
	}
}

func isComment(name string) bool {
	return strings.HasPrefix(name, "_") || strings.HasPrefix(name, "#") || strings.HasPrefix(name, "//") || strings.Contains(strings.ToLower(name), "comment")
}

func (r *reader) unknown(settings []setting, name string) string {
	release := "DeepSpeed " + r.release
	if r.release == "" {
		release = "the newest DeepSpeed"
	}
	nearest, least := "", max(2, len(name)/4)+1
	for _, setting := range settings {
		switch {
		case setting.Name == name && setting.Since != "" && !r.since(setting.Since):
			return fmt.Sprintf("%s does not know it; it was added in %s", release, setting.Since)
		case setting.Name == name && setting.Until != "":
			return fmt.Sprintf("%s does not know it; it was removed in %s", release, setting.Until)
		case !r.knows(setting):
			continue
		}
		for _, known := range []string{setting.Name, setting.Field} {
			if distance := levenshtein.ComputeDistance(name, known); known != "" && distance < least {
				nearest, least = known, distance
			}
		}
	}
	if nearest == "" {
		return release + " does not know it"
	}
	return fmt.Sprintf("%s does not know it: did you mean %q?", release, nearest)
}
