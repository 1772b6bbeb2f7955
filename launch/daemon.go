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
	if i := slices.IndexFunc(p.LauncherArgs, isOption("-prefix")); i >= 0 && i+1 < len(p.LauncherArgs) {
		return path.Join(p.LauncherArgs[i+1], "bin", "orted")
	}
	return mpirun.Daemon
}

// CallBack is the name by which the nodes call the launching machine back: Hydra hands them
// its hostname. It is "" where none is, or an address.
//
// Source: pmodels/mpich 4.0, src/pm/hydra/utils/sock/sock.c,
// HYDU_sock_create_and_listen_portstr; Intel MPI 2021.6 prints --upstream-host. Open MPI
// hands addresses.
func (p Prediction) CallBack(head *facts.Node) string {
	mpirun, runs := p.mpirun(head)
	if !runs || mpirun.Options != facts.OptionsHydra || head.Host == nil || p.says("-iface", "-localhost") || isSet(head.Env, "HYDRA_IFACE", "I_MPI_HYDRA_IFACE") {
		return ""
	}
	return head.Host.Hostname
}

// ChoosesTransport is whether somebody told Open MPI over what ranks talk: in
// --launcher_args, or in the environment of its mpirun.
func (p Prediction) ChoosesTransport(head *facts.Node) bool {
	return p.says("pml", "mtl", "btl") || head != nil && isSet(head.Env, "OMPI_MCA_pml", "OMPI_MCA_mtl", "OMPI_MCA_btl")
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

func isOption(option string) func(string) bool {
	return func(word string) bool { return strings.TrimLeft(word, "-") == strings.TrimLeft(option, "-") }
}

func isSet(env *facts.Env, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, set := Lookup(env, name); return set })
}
