package checks

import (
	"fmt"
	"net/netip"

	"preflight/launch"
)

// cure is where the ranks should meet instead, with what speaks for it, and the
// command that has them do so.
func (m masterPlace) cure() (want string, fix []string) {
	address, proof := launch.PeerAddress(m.first).Address, ""
	if seen := m.first.PeerRendezvous; seen != nil {
		if _, together := gathered(m.view.All, peerRendezvous); together {
			address, _ = splitEndpoint(seen.Endpoint)
			proof = fmt.Sprintf(", where %d of %[1]d nodes met", len(m.view.All))
		}
	}
	if address == "" || address == m.Host {
		return "an address of node 0 that the other nodes can call", []string{"{ssh} ip -br addr", meetAt(m.view, "ADDRESS", m.Port)}
	}
	command := meetAt(m.view, address, m.Port)
	if proof == "" {
		proof = ", by which node 0 was reached"
		command += "   # not proven: no rendezvous there brought all nodes together"
	}
	return address + proof, []string{command}
}

// meetAt is the command that has the ranks meet at an address. A launcher that
// passes no address on cannot be told.
func meetAt(view View, address string, port int) string {
	host := address
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
		host = "[" + address + "]"
	}
	switch view.Launch.Rendezvous {
	case launch.RendezvousC10d:
		return fmt.Sprintf("torchrun --rdzv_backend=c10d --rdzv_endpoint=%s:%d …", host, port)
	case launch.RendezvousStatic:
		return fmt.Sprintf("torchrun --master_addr=%s --master_port=%d …", address, port)
	}
	told := view.Launch
	told.MasterAddr = address
	if told.MeetingHost() != address {
		return fmt.Sprintf("deepspeed --launcher pdsh --master_addr=%s …   # --launcher %s passes no address on", shellWord(address), told.Launcher)
	}
	return fmt.Sprintf("deepspeed --master_addr=%s …", shellWord(address))
}
