// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
)

// CallBack describes how the program that mpirun starts on the nodes connects back to the launching
// machine. The zero value means that no node connects back, or that the way is unknown.
type CallBack struct {
	// Name is the host name of the launching machine that the nodes look up, "" if they get
	// addresses.
	Name string
	// Addresses lists the addresses in the order in which the nodes try them until one answers.
	Addresses []string
	// Low and High are the range of ports on which mpirun listens, both included: the configured
	// range, or the range from which the kernel assigns ports.
	Low, High int
}

// CallBack returns how the nodes connect back to the launching machine. Hydra passes its host name
// to the nodes, or the address of a configured interface. Open MPI passes all its addresses.
//
// Source: pmodels/mpich 4.0, src/pm/hydra/utils/sock/sock.c, HYDU_sock_create_and_listen_portstr;
// Intel MPI 2021.6 prints --upstream-host. open-mpi/ompi 4.1, orte/mca/oob/tcp/oob_tcp_component.c,
// component_available and component_get_addr, and oob_tcp_connection.c. IPv6 is left out: few
// builds support it, and it comes last.
func (p Prediction) CallBack(head *facts.Node) (back CallBack) {
	mpirun, runs := p.mpirun(head)
	if !runs {
		return back
	}
	if head.Net != nil {
		back.Low, back.High = head.Net.EphemeralLow, head.Net.EphemeralHigh
	}
	if mpirun.Options == facts.OptionsOpenMPI {
		back.Addresses = addressesIn(head.Net, p.mca(head, "oob_tcp_if_include"), p.mca(head, "oob_tcp_if_exclude"))
		back.ports(cmp.Or(p.mca(head, "oob_tcp_static_ipv4_ports"), p.mca(head, "oob_tcp_dynamic_ipv4_ports")), "-")
		return back
	}
	back.ports(variable(head.Env, portRanges...), ":")
	if chosen := cmp.Or(p.valueOf("-iface"), variable(head.Env, "HYDRA_IFACE", "I_MPI_HYDRA_IFACE")); chosen != "" {
		if addresses := addressesIn(head.Net, chosen, ""); addresses != nil {
			back.Addresses = addresses[:1]
		}
		return back
	}
	if back.Name = p.valueOf("-localhost"); back.Name == "" && head.Host != nil {
		back.Name = head.Host.Hostname
	}
	return back
}

// NoCallBack returns the reason why no node connects back to the launching machine, or why that is
// unknown. It returns "" if the nodes connect back.
func (p Prediction) NoCallBack(head *facts.Node) string {
	switch by := p.StartedBy(); {
	case p.Local:
		return "one active host: DeepSpeed starts the ranks itself"
	case by.NoCallBack != "":
		return by.NoCallBack
	case by.Name == "":
		return "every node is started by hand and does not connect to the launching machine"
	case !p.StartsByMPIRun(head):
		return "preflight does not know what mpirun starts on the nodes: see launcher-ready"
	}
	return ""
}

// portRanges lists the variables from which Hydra reads a port range, written LOW:HIGH. They were
// tried with 4.0.2.
var portRanges = []string{"MPIR_CVAR_CH3_PORT_RANGE", "MPIR_CVAR_PORT_RANGE", "MPICH_PORT_RANGE", "MPIEXEC_PORTRANGE", "MPIEXEC_PORT_RANGE", "I_MPI_PORT_RANGE"}

// ports sets Low and High if the text is a range of two ports with between as the separator.
func (back *CallBack) ports(text, between string) {
	from, to, _ := strings.Cut(text, between)
	low, err := strconv.Atoi(strings.TrimSpace(from))
	high, wrong := strconv.Atoi(strings.TrimSpace(to))
	if err == nil && wrong == nil && 0 < low && low <= high && high <= 65535 {
		back.Low, back.High = low, high
	}
}

// mca returns the value of an Open MPI parameter, "" if it is not set.
func (p Prediction) mca(head *facts.Node, name string) string {
	return cmp.Or(p.valueOf(name), variable(head.Env, "OMPI_MCA_"+name), inMPIFiles(head, name).Value)
}

// inMPIFiles returns an Open MPI parameter as the configuration files of a machine set it.
func inMPIFiles(machine *facts.Node, name string) facts.Setting {
	if machine.Env != nil {
		for _, s := range machine.Env.MPI {
			if s.Name == name {
				return s
			}
		}
	}
	return facts.Setting{}
}

// LacksMPINetwork returns the setting in a configuration file of a node with which Open MPI's
// program on the node finds no network to call mpirun. A parameter of mpirun's command or
// environment overrides it.
//
// Source: open-mpi/ompi 4.1, orte/mca/oob/tcp/oob_tcp_component.c, component_available.
func (p Prediction) LacksMPINetwork(head, node *facts.Node) (setting facts.Setting, lacks bool) {
	const name = "oob_tcp_if_include"
	mpirun, runs := p.mpirun(head)
	if !runs || mpirun.Options != facts.OptionsOpenMPI || node.Net == nil || cmp.Or(p.valueOf(name), variable(head.Env, "OMPI_MCA_"+name)) != "" {
		return facts.Setting{}, false
	}
	setting = inMPIFiles(node, name)
	isName := func(entry string) bool { return strings.Trim(entry, "0123456789./: ") != "" }
	namesOne := slices.ContainsFunc(strings.Split(setting.Value, ","), isName) // Open MPI drops a network that it does not find, and then uses every interface
	return setting, namesOne && addressesIn(node.Net, setting.Value, "") == nil
}

// variable returns the first of these variables that is set, "" if none is.
func variable(env *facts.Env, names ...string) string {
	for _, name := range names {
		if value, _ := Lookup(env, name); value != "" {
			return value
		}
	}
	return ""
}

// addressesIn returns the IPv4 addresses of the interfaces that are up, in the kernel's order and
// without loopback addresses. include and exclude are comma-separated lists of interface names and
// networks. An empty include selects all interfaces.
func addressesIn(net *facts.Net, include, exclude string) (addresses []string) {
	if net == nil {
		return nil
	}
	for _, i := range net.Interfaces {
		for _, text := range i.Addresses {
			prefix, err := netip.ParsePrefix(text)
			isListed := func(list string) bool {
				return slices.ContainsFunc(strings.Split(list, ","), func(entry string) bool {
					network, err := netip.ParsePrefix(entry)
					return entry == i.Name || err == nil && network.Contains(prefix.Addr())
				})
			}
			if err == nil && i.Up && !i.Loopback && prefix.Addr().Is4() && (include == "" || isListed(include)) && !isListed(exclude) {
				addresses = append(addresses, prefix.Addr().String())
			}
		}
	}
	return addresses
}
