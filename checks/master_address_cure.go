package checks

import (
	"fmt"
	"net/netip"

	"preflight/launch"
)

// cure is where the ranks should meet instead, with what speaks for it, and the
// command that has them do so.
func (m masterPlace) cure() (want string, fix []string) {
	address := launch.PeerAddress(m.first).Address
	if seen := m.first.PeerRendezvous; seen != nil {
		address, _ = splitEndpoint(seen.Endpoint)
	}
	if address == "" || address == m.Host {
		return "an address of node 0 that the other nodes can call", []string{"{ssh} ip -br addr", meetAt(m.view, "ADDRESS", m.Port)}
	}
	command := meetAt(m.view, address, m.Port)
	switch tried := attended(m.view.All, peerRendezvous); {
	case tried.proven():
		return fmt.Sprintf("%s, where %d of %d nodes met", address, tried.met, tried.all), []string{command}
	case tried.counted > 1:
		return fmt.Sprintf("%s, where %d of %d nodes reached node 0", address, tried.counted, tried.all),
			[]string{fmt.Sprintf("%s   # proven for %d of %d nodes", command, tried.counted, tried.all)}
	}
	return address + ", by which node 0 was reached", []string{command + "   # not proven: no other node met node 0 there"}
}

// program is what the ranks are started by.
func program(view View) string {
	if view.Launch.Rendezvous == launch.RendezvousC10d || view.Launch.Rendezvous == launch.RendezvousStatic {
		return launch.ProgramTorchrun
	}
	return launch.ProgramDeepSpeed
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
		return fmt.Sprintf("torchrun --rdzv_backend=c10d --rdzv_endpoint=%s …", ShellWord(fmt.Sprintf("%s:%d", host, port)))
	case launch.RendezvousStatic:
		return fmt.Sprintf("torchrun --master_addr=%s --master_port=%d …", ShellWord(address), port)
	}
	told := view.Launch
	told.MasterAddr = address
	if told.MeetingHost() != address {
		return fmt.Sprintf("deepspeed --launcher %s --master_addr=%s …   # --launcher %s passes no address on", launch.DefaultLauncher, ShellWord(address), told.Launcher)
	}
	return fmt.Sprintf("deepspeed --master_addr=%s …", ShellWord(address))
}
