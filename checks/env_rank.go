package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks/fix"
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
func takeOut(view View, setting facts.Setting) []fix.Command {
	name := setting.Name
	export, isExported := exported(view, name)
	switch {
	case isExported && strings.Contains(export.Source, "/"):
		return []fix.Command{fix.Here("sed -i '/^%s=/d' %s", fix.Variable(name), fix.Path(export.Source))}
	case isExported:
		return []fix.Command{fix.Here("unset %s", fix.Variable(name))}
	case strings.HasPrefix(setting.Source, "/"):
		return []fix.Command{fix.On("sudo sed -i '/^%s=/d' %s", fix.Variable(name), fix.Path(setting.Source))}
	}
	return []fix.Command{searchSession(name)}
}

func exported(view View, name string) (facts.Setting, bool) {
	i := slices.IndexFunc(view.Launch.Exports, func(export facts.Setting) bool { return export.Name == name })
	if i < 0 {
		return facts.Setting{}, false
	}
	return view.Launch.Exports[i], true
}

// exportLine sets a variable for every rank of the launch.
func exportLine(p launch.Prediction, name, value string) fix.Command {
	if p.Torchrun() {
		return fix.Here("export %s   # in the shell of every node that starts torchrun", fix.Setting{Variable: name, Value: value})
	}
	return fix.Here("echo %s >> ~/.deepspeed_env", fix.Setting{Variable: name, Value: value})
}

// searchSession finds the file that sets a variable in a session without login.
func searchSession(name string) fix.Command {
	return fix.On("grep -ns %s /etc/environment ~/.bashrc ~/.profile ~/.ssh/environment", fix.Variable(name))
}
