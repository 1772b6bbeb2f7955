// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/hostfile"
)

// TestWhatMPIRunStarts checks what mpirun starts on the nodes and where that program connects to.
func TestWhatMPIRunStarts(t *testing.T) {
	hydra := facts.MPIRun{Version: "Hydra 4.0.2", Options: facts.OptionsHydra, Daemon: "/usr/bin/hydra_pmi_proxy"}
	openMPI := facts.MPIRun{Version: "Open MPI 4.1.4", Options: facts.OptionsOpenMPI, Daemon: "orted"}
	for name, c := range map[string]struct {
		launcher         string
		mpirun           facts.MPIRun
		args             []string
		variable         string // variable that is set where the launch is typed
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
			Launcher: &facts.Launcher{MPIRun: &c.mpirun}, Host: &facts.Host{Hostname: "login"}, Env: &facts.Env{Vars: []facts.Setting{{Name: c.variable, Value: "x"}}},
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

// TestCallBack checks the addresses that the nodes get, and the ports on which mpirun listens.
func TestCallBack(t *testing.T) {
	hydra, openMPI := facts.MPIRun{Options: facts.OptionsHydra}, facts.MPIRun{Options: facts.OptionsOpenMPI}
	net := &facts.Net{EphemeralLow: 40000, EphemeralHigh: 50000, Interfaces: []facts.Interface{
		{Name: "lo", Up: true, Loopback: true, Addresses: []string{"127.0.0.1/8"}},
		{Name: "docker0", Up: true, Addresses: []string{"172.17.0.1/16"}},
		{Name: "eth0", Up: true, Addresses: []string{"10.0.0.5/24", "10.0.1.5/24", "fe80::1/64"}},
		{Name: "eth1", Addresses: []string{"10.9.0.5/24"}},
	}}
	named := func(name string, low, high int) CallBack { return CallBack{Name: name, Low: low, High: high} }
	at := func(low, high int, addresses ...string) CallBack {
		return CallBack{Addresses: addresses, Low: low, High: high}
	}
	for name, c := range map[string]struct {
		launcher string
		mpirun   facts.MPIRun
		args     []string
		variable facts.Setting
		want     CallBack
	}{
		"openmpi":           {"openmpi", openMPI, nil, facts.Setting{}, at(40000, 50000, "172.17.0.1", "10.0.0.5", "10.0.1.5")},
		"an interface":      {"openmpi", openMPI, []string{"--mca", "oob_tcp_if_include", "eth0"}, facts.Setting{}, at(40000, 50000, "10.0.0.5", "10.0.1.5")},
		"a network":         {"openmpi", openMPI, nil, facts.Setting{Name: "OMPI_MCA_oob_tcp_if_include", Value: "10.0.1.0/24,ib0"}, at(40000, 50000, "10.0.1.5")},
		"not an interface":  {"openmpi", openMPI, []string{"--mca", "oob_tcp_if_exclude", "docker0,lo"}, facts.Setting{}, at(40000, 50000, "10.0.0.5", "10.0.1.5")},
		"ports":             {"openmpi", openMPI, []string{"--mca", "oob_tcp_dynamic_ipv4_ports", "46000-46010"}, facts.Setting{}, at(46000, 46010, "172.17.0.1", "10.0.0.5", "10.0.1.5")},
		"no ports":          {"openmpi", openMPI, []string{"--mca", "oob_tcp_dynamic_ipv4_ports", "46010-46000"}, facts.Setting{}, at(40000, 50000, "172.17.0.1", "10.0.0.5", "10.0.1.5")},
		"hydra":             {"mpich", hydra, nil, facts.Setting{}, named("login", 40000, 50000)},
		"hydra's ports":     {"mpich", hydra, nil, facts.Setting{Name: "MPIEXEC_PORT_RANGE", Value: "10000:10010"}, named("login", 10000, 10010)},
		"hydra's interface": {"mpich", hydra, []string{"-iface", "eth0"}, facts.Setting{}, at(40000, 50000, "10.0.0.5")},
		"by variable":       {"mpich", hydra, nil, facts.Setting{Name: "HYDRA_IFACE", Value: "docker0"}, at(40000, 50000, "172.17.0.1")},
		"of nobody":         {"mpich", hydra, []string{"-iface", "ib0"}, facts.Setting{}, at(40000, 50000)},
		"another name":      {"mpich", hydra, []string{"-localhost", "other"}, facts.Setting{}, named("other", 40000, 50000)},
		"pdsh":              {"pdsh", hydra, nil, facts.Setting{}, CallBack{}},
	} {
		head := &facts.Node{Facts: facts.Facts{
			Launcher: &facts.Launcher{MPIRun: &c.mpirun}, Host: &facts.Host{Hostname: "login"}, Net: net, Env: &facts.Env{Vars: []facts.Setting{c.variable}},
		}}
		got := Prediction{Launcher: c.launcher, LauncherArgs: c.args}.CallBack(head)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
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
