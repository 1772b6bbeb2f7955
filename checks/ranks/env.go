// SPDX-License-Identifier: Apache-2.0

package ranks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// Env returns the environment of the ranks on a node. As in NCCL, gloo and torch, a variable with
// an empty value counts as not set.
func Env(view checks.View, node *facts.Node) launch.Env {
	return launch.RankEnv(node.Env, view.Launch.Exports)
}

// Settings returns the variables that are set for the ranks, sorted by name.
func Settings(view checks.View, node *facts.Node) []facts.Setting {
	return slices.DeleteFunc(Env(view, node).All(), func(s facts.Setting) bool { return s.Value == "" })
}

// Unread returns the reason why no program of the launch reads a variable. The prefix of the
// variable decides. It returns "" if a program may read it.
func Unread(view checks.View, name string) string {
	asksForGPUs := view.Launch.AcceleratorAssumed && view.Launch.PerNode == "gpu" // the launch has --nproc_per_node=gpu although no GPU was seen
	switch prefix, _, _ := strings.Cut(name, "_"); {
	case prefix == "NCCL" && !UsesNCCL(view) && !asksForGPUs:
		return "NCCL is not used with accelerator cpu"
	case (prefix == "GLOO" || strings.HasPrefix(name, "TORCH_GLOO_")) && !UsesGloo(view):
		return "gloo is used only if the script creates a gloo group"
	case prefix == "TP":
		return "tensorpipe is used only if the script uses RPC"
	}
	return ""
}

// Origin returns a setting as text, with the place where it is set.
func Origin(view checks.View, setting facts.Setting) string {
	if export, isExported := Exported(view, setting.Name); isExported {
		return fmt.Sprintf("%s=%s, exported to every node from %s", setting.Name, setting.Value, source(export, "the launching machine's environment"))
	}
	return fmt.Sprintf("%s=%s from %s", setting.Name, setting.Value, source(setting, "the ssh session's environment"))
}

func source(setting facts.Setting, environment string) string {
	if setting.Source == "environment" {
		return environment
	}
	return setting.Source
}

// TakeOut returns the commands that remove a setting from the place where it is set. That is the
// launching machine, a configuration file of the node, or a file that the node's shell reads.
func TakeOut(view checks.View, setting facts.Setting) []fix.Command {
	name := setting.Name
	export, isExported := Exported(view, name)
	switch {
	case isExported && export.Source == launch.ByCommand:
		return []fix.Command{fix.Note("remove %s from the command that you type on every node, or from the script that it runs", fix.Variable(name))}
	case isExported && strings.Contains(export.Source, "/"):
		return []fix.Command{fix.Here("sed -i '/^%s=/d' %s", fix.Variable(name), fix.Path(export.Source))}
	case isExported:
		return []fix.Command{fix.Here("unset %s", fix.Variable(name))}
	case strings.HasPrefix(setting.Source, "/"):
		return []fix.Command{fix.On("sudo sed -i '/^%s=/d' %s", fix.Variable(name), fix.Path(setting.Source)).Inside()}
	}
	return []fix.Command{SearchSession(name)}
}

func Exported(view checks.View, name string) (facts.Setting, bool) {
	i := slices.IndexFunc(view.Launch.Exports, func(export facts.Setting) bool { return export.Name == name })
	if i < 0 {
		return facts.Setting{}, false
	}
	return view.Launch.Exports[i], true
}

// SearchSession returns the command that finds the file that sets a variable in non-login sessions.
func SearchSession(name string) fix.Command {
	return fix.On("grep -ns %s /etc/environment ~/.bashrc ~/.profile ~/.ssh/environment   # which file sets it", fix.Variable(name)).As(fix.Look)
}

// Exporting returns the launch with one more variable exported to every node.
func Exporting(prediction launch.Prediction, name, value string) launch.Prediction {
	exports := slices.DeleteFunc(slices.Clone(prediction.Exports), func(s facts.Setting) bool { return s.Name == name })
	prediction.Exports = append(exports, facts.Setting{Name: name, Value: value, Source: ".deepspeed_env"})
	return prediction
}

// TorchLacksSpace returns the loader's message if it cannot map torch's libraries and a limit on
// address space is the reason, otherwise "".
func TorchLacksSpace(node *facts.Node) string {
	if node.Limits == nil || node.Limits.AddressSpace == nil || node.Python == nil {
		return ""
	}
	var told []string
	if node.Python.Torch != nil {
		told = append(told, node.Python.Torch.Unloadable)
	}
	for _, b := range node.Python.Broken {
		told = append(told, strings.TrimPrefix(b.Error, "ImportError: "))
	}
	for _, message := range told {
		if strings.Contains(message, "failed to map segment") {
			return message
		}
	}
	return ""
}
