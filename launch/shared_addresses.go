package launch

import (
	"net/netip"

	"preflight/facts"
)

// SharedAddresses counts the machines that hold each address, of those that
// more than one holds: docker0's 172.17.0.1, or a twin. Two entries that are
// one machine count once, and so does one address on two of its interfaces.
// Loopback addresses are every machine's own; IPv6 link-local ones mean nothing
// without an interface, and may be the same on any two links.
func SharedAddresses(nodes []*facts.Node) map[netip.Addr]int {
	first := map[netip.Addr]string{} // address → the machine that was met first
	holders := map[netip.Addr]map[string]bool{}
	for _, node := range nodes {
		if node.Net == nil {
			continue
		}
		machine, known := Machine(node)
		if !known {
			machine = "entry " + node.Name
		}
		for _, i := range node.Net.Interfaces {
			for _, text := range i.Addresses {
				prefix, err := netip.ParsePrefix(text)
				address := prefix.Addr().Unmap()
				if err != nil || address.IsLoopback() || address.Is6() && address.IsLinkLocalUnicast() {
					continue
				}
				switch earlier, met := first[address]; {
				case !met:
					first[address] = machine
				case earlier != machine && holders[address] == nil:
					holders[address] = map[string]bool{earlier: true, machine: true}
				case earlier != machine:
					holders[address][machine] = true
				}
			}
		}
	}
	shared := map[netip.Addr]int{}
	for address, machines := range holders {
		shared[address] = len(machines)
	}
	return shared
}

// Machine is what two entries of a hostfile have in common when they are one
// machine: boot id, machine id and network namespace, by which containers with
// networks of their own are distinct. It is not known of a node that does not
// tell them.
func Machine(node *facts.Node) (machine string, known bool) {
	if node.Host == nil || node.Host.BootID == "" || node.Host.NetNamespace == "" {
		return "", false
	}
	return node.Host.BootID + " " + node.Host.MachineID + " " + node.Host.NetNamespace, true
}
