package launch

import (
	"testing"

	"preflight/facts"
	"preflight/hostfile"
)

// TestWhatMPIRunStarts: what mpirun starts on the nodes, and whom it has them call.
func TestWhatMPIRunStarts(t *testing.T) {
	hydra := facts.MPIRun{Version: "Hydra 4.0.2", Options: facts.OptionsHydra, Daemon: "/usr/bin/hydra_pmi_proxy"}
	openMPI := facts.MPIRun{Version: "Open MPI 4.1.4", Options: facts.OptionsOpenMPI, Daemon: "orted"}
	for name, c := range map[string]struct {
		launcher         string
		mpirun           facts.MPIRun
		args             []string
		variable         string // that is set where the launch is typed
		change           func(*Prediction)
		daemon, callBack string
	}{
		"openmpi":               {launcher: "openmpi", mpirun: openMPI, daemon: "orted"},
		"of another place":      {launcher: "openmpi", mpirun: openMPI, args: []string{"--prefix", "/opt/openmpi"}, daemon: "/opt/openmpi/bin/orted"},
		"an agent":              {launcher: "openmpi", mpirun: openMPI, args: []string{"-mca", "orte_launch_agent", "x"}},
		"an agent by variable":  {launcher: "openmpi", mpirun: openMPI, variable: "OMPI_MCA_orte_launch_agent"},
		"mpich":                 {launcher: "mpich", mpirun: hydra, daemon: "/usr/bin/hydra_pmi_proxy", callBack: "login"},
		"an interface":          {launcher: "mpich", mpirun: hydra, args: []string{"-iface", "ib0"}, daemon: "/usr/bin/hydra_pmi_proxy"},
		"by variable":           {launcher: "mpich", mpirun: hydra, variable: "HYDRA_IFACE", daemon: "/usr/bin/hydra_pmi_proxy"},
		"not over ssh":          {launcher: "mpich", mpirun: hydra, args: []string{"-launcher", "rsh"}, callBack: "login"},
		"in a Slurm job":        {launcher: "mpich", mpirun: hydra, change: func(p *Prediction) { p.SlurmJob = true }, callBack: "login"},
		"one host":              {launcher: "mpich", mpirun: hydra, change: func(p *Prediction) { p.Local = true }},
		"by hand":               {launcher: "mpich", mpirun: hydra, change: func(p *Prediction) { p.NoSSH = true }},
		"pdsh":                  {launcher: "pdsh", mpirun: hydra},
		"of other options":      {launcher: "openmpi", mpirun: hydra},
		"of nobody knows which": {launcher: "mpich", mpirun: facts.MPIRun{Version: "1"}},
	} {
		head := &facts.Node{Facts: facts.Facts{
			Launcher: &facts.Launcher{MPIRun: &c.mpirun}, Host: &facts.Host{Hostname: "login"}, Env: &facts.Env{Vars: []facts.Setting{{Name: c.variable}}},
		}}
		p := Prediction{Launcher: c.launcher, LauncherArgs: c.args}
		if c.change != nil {
			c.change(&p)
		}
		if daemon, callBack := p.Daemon(head), p.CallBack(head).Name; daemon != c.daemon || callBack != c.callBack {
			t.Errorf("%s: it starts %q, want %q; nodes call %q, want %q", name, daemon, c.daemon, callBack, c.callBack)
		}
		if daemon, callBack := p.Daemon(nil), p.CallBack(nil).Name; daemon != "" || callBack != "" {
			t.Errorf("%s: %q and %q of a launching machine that nobody looked at", name, daemon, callBack)
		}
	}
}

func TestNodesStartOthers(t *testing.T) {
	for _, c := range []struct {
		launcher string
		hosts    int
		args     []string
		want     bool
	}{
		{"openmpi", 64, nil, false}, {"openmpi", 65, nil, true},
		{"openmpi", 3, []string{"--mca", "routed_radix", "2"}, true}, {"openmpi", 65, []string{"--mca", "routed_radix", "100"}, false},
		{"openmpi", 65, []string{"routed_radix"}, true}, {"openmpi", 65, []string{"routed_radix", "wide"}, true},
		{"impi", 5, []string{"-branch-count", "4"}, true},
		{"mpich", 1000, nil, false}, {"pdsh", 1000, []string{"", "1"}, false}, {"slurm", 51, nil, true},
	} {
		if got := (Prediction{Launcher: c.launcher, LauncherArgs: c.args, Hosts: make([]hostfile.Host, c.hosts)}).NodesStartOthers(); got != c.want {
			t.Errorf("%s %q over %d hosts: %v", c.launcher, c.args, c.hosts, got)
		}
	}
}
