package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

// rankEnv is what the ranks on a node will see, by name. An empty value counts
// as not set, which is how NCCL, gloo and torch take it.
func rankEnv(view View, node *facts.Node) map[string]facts.Setting {
	return Remember(view, envOn{node}, func() map[string]facts.Setting {
		settings := map[string]facts.Setting{}
		for _, setting := range launch.RankEnv(node.Env, view.Launch.Exports) {
			if setting.Value != "" {
				settings[setting.Name] = setting
			}
		}
		return settings
	})
}

type envOn struct{ node *facts.Node }

// origin is a setting as its author would look for it.
func origin(view View, setting facts.Setting) string {
	if export, isExported := exported(view, setting.Name); isExported {
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

// takeOut is the way to take a setting out where it comes from: the launching
// machine, a configuration file of the node, or some file its shell reads.
func takeOut(view View, setting facts.Setting) []string {
	name := setting.Name
	export, isExported := exported(view, name)
	switch {
	case isExported && strings.Contains(export.Source, "/"):
		return []string{fmt.Sprintf("sed -i '/^%s=/d' %s", name, ShellWord(export.Source))}
	case isExported:
		return []string{"unset " + name}
	case strings.HasPrefix(setting.Source, "/"):
		return []string{onNodes(`"sudo sed -i '/^%s=/d' %s"`, name, setting.Source)}
	}
	return []string{searchSession(name)}
}

func exported(view View, name string) (facts.Setting, bool) {
	i := slices.IndexFunc(view.Launch.Exports, func(export facts.Setting) bool { return export.Name == name })
	if i < 0 {
		return facts.Setting{}, false
	}
	return view.Launch.Exports[i], true
}

// exportLine sets a variable for every rank of the launch.
func exportLine(p launch.Prediction, name, value string) string {
	if p.Torchrun() {
		return fmt.Sprintf("export %s   # in the shell of every node that starts torchrun", ShellWord(name+"="+value))
	}
	return fmt.Sprintf("echo %s >> ~/.deepspeed_env", ShellWord(name+"="+value))
}

// searchSession finds the file that sets a variable in a session without login.
func searchSession(name string) string {
	return onNodes(`"grep -ns %s /etc/environment ~/.bashrc ~/.profile ~/.ssh/environment"`, name)
}
