// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"path"
	"slices"
	"strings"

	"preflight/facts"
)

// Daemon returns the program that the launcher starts over ssh on every node except the launching
// machine. The result is a path, or a name that is looked up in the node's PATH. It is "" if there
// is no such program or it is unknown.
func (p Prediction) Daemon(head *facts.Node) string {
	mpirun, runs := p.mpirun(head)
	if !runs || !p.StartedBy().SSH {
		return ""
	}
	if mpirun.Options == facts.OptionsHydra {
		if p.says("-launcher", "-launcher-exec", "-bootstrap", "-bootstrap-exec") || isSet(head.Env, "HYDRA_LAUNCHER", "HYDRA_LAUNCHER_EXEC", "HYDRA_BOOTSTRAP", "HYDRA_BOOTSTRAP_EXEC") {
			return ""
		}
		return mpirun.Daemon
	}
	if p.says("orte_launch_agent", "-launch-agent", "plm_rsh_agent", "plm") || isSet(head.Env, "OMPI_MCA_orte_launch_agent", "OMPI_MCA_plm_rsh_agent", "OMPI_MCA_plm") {
		return ""
	}
	if prefix := p.valueOf("-prefix"); prefix != "" {
		return path.Join(prefix, "bin", "orted")
	}
	return mpirun.Daemon
}

// ChoosesTransport reports whether --launcher_args or the environment of Open MPI's mpirun select
// the transport between ranks.
func (p Prediction) ChoosesTransport(head *facts.Node) bool {
	return p.says("pml", "mtl", "btl") || head != nil && isSet(head.Env, "OMPI_MCA_pml", "OMPI_MCA_mtl", "OMPI_MCA_btl")
}

// StartsByMPIRun reports whether the launch runs an mpirun that accepts the options of the command.
func (p Prediction) StartsByMPIRun(head *facts.Node) bool {
	_, runs := p.mpirun(head)
	return runs
}

// mpirun returns the mpirun that the launch runs. runs is false if the launch runs no mpirun, or if
// that mpirun does not accept the options of the command.
func (p Prediction) mpirun(head *facts.Node) (mpirun *facts.MPIRun, runs bool) {
	if p.Local || head == nil || head.Launcher == nil || head.Launcher.MPIRun == nil {
		return nil, false
	}
	mpirun = head.Launcher.MPIRun
	return mpirun, mpirun.Options != "" && mpirun.Options == p.StartedBy().MPIRun
}

// says reports whether --launcher_args contain one of these options, with one dash or two dashes.
func (p Prediction) says(options ...string) bool {
	return slices.ContainsFunc(options, func(option string) bool { return slices.ContainsFunc(p.LauncherArgs, isOption(option)) })
}

// valueOf returns the word after one of these options in --launcher_args, "" if there is none.
func (p Prediction) valueOf(options ...string) string {
	for _, option := range options {
		if i := slices.IndexFunc(p.LauncherArgs, isOption(option)); i >= 0 && i+1 < len(p.LauncherArgs) {
			return p.LauncherArgs[i+1]
		}
	}
	return ""
}

func isOption(option string) func(string) bool {
	return func(word string) bool { return strings.TrimLeft(word, "-") == strings.TrimLeft(option, "-") }
}

func isSet(env *facts.Env, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, set := Lookup(env, name); return set })
}
