// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"path"
	"slices"
	"strings"

	"preflight/facts"
)

// Daemon is the program that the launcher starts over ssh on every node but the launching
// machine: a name to be found in PATH there, or a path. It is "" where none is, or where
// it is not known which.
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
	if prefix := p.said("-prefix"); prefix != "" {
		return path.Join(prefix, "bin", "orted")
	}
	return mpirun.Daemon
}

// ChoosesTransport is whether somebody told Open MPI over what ranks talk: in
// --launcher_args, or in the environment of its mpirun.
func (p Prediction) ChoosesTransport(head *facts.Node) bool {
	return p.says("pml", "mtl", "btl") || head != nil && isSet(head.Env, "OMPI_MCA_pml", "OMPI_MCA_mtl", "OMPI_MCA_btl")
}

// StartsByMPIRun is whether the launch runs an mpirun that takes the options that it gets.
func (p Prediction) StartsByMPIRun(head *facts.Node) bool {
	_, runs := p.mpirun(head)
	return runs
}

// mpirun is the one that the launch runs, if it does and takes the options that it gets.
func (p Prediction) mpirun(head *facts.Node) (mpirun *facts.MPIRun, runs bool) {
	if p.Local || head == nil || head.Launcher == nil || head.Launcher.MPIRun == nil {
		return nil, false
	}
	mpirun = head.Launcher.MPIRun
	return mpirun, mpirun.Options != "" && mpirun.Options == p.StartedBy().MPIRun
}

// says is whether --launcher_args have one of these options, with one dash or two.
func (p Prediction) says(options ...string) bool {
	return slices.ContainsFunc(options, func(option string) bool { return slices.ContainsFunc(p.LauncherArgs, isOption(option)) })
}

// said is the word after one of these options in --launcher_args, "" where there is none.
func (p Prediction) said(options ...string) string {
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
