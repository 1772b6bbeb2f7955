package checks

import (
	"fmt"
	"net/netip"

	"preflight/checks/fix"
	"preflight/launch"
)

// cure is where the ranks should meet instead, with what speaks for it, and the
// command that has them do so.
func (m masterPlace) cure() (want string, commands []fix.Command) {
	address := launch.PeerAddress(m.first).Address
	if seen := m.first.PeerRendezvous; seen != nil {
		address, _ = splitEndpoint(seen.Endpoint)
	}
	if address == "" || address == m.Host {
		return "an address of node 0 that the other nodes can call", []fix.Command{fix.On("ip -br addr"), meetAt(m.view, "ADDRESS", m.Port)}
	}
	command := meetAt(m.view, address, m.Port)
	switch tried := attended(m.view.All, peerRendezvous); {
	case tried.proven():
		return fmt.Sprintf("%s, where %d of %d nodes met", address, tried.met, tried.all), []fix.Command{command}
	case tried.counted > 1:
		return fmt.Sprintf("%s, where %d of %d nodes reached node 0", address, tried.counted, tried.all),
			[]fix.Command{command.Remark("proven for %s of %s nodes", fix.Number(tried.counted), fix.Number(tried.all))}
	}
	return address + ", by which node 0 was reached", []fix.Command{command.Remark("not proven: no other node met node 0 there")}
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
func meetAt(view View, address string, port int) fix.Command {
	host := address
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
		host = "[" + address + "]"
	}
	switch view.Launch.Rendezvous {
	case launch.RendezvousC10d:
		return fix.Here("torchrun --rdzv_backend=c10d --rdzv_endpoint=%s …", fix.Word(fmt.Sprintf("%s:%d", host, port)))
	case launch.RendezvousStatic:
		return fix.Here("torchrun --master_addr=%s --master_port=%s …", fix.Host(address), fix.Number(port))
	}
	told := view.Launch
	told.MasterAddr = address
	if told.MeetingHost() != address {
		return fix.Here("deepspeed --launcher %s --master_addr=%s …   # --launcher %s passes no address on", fix.Name(launch.DefaultLauncher), fix.Host(address), fix.Text(told.Launcher))
	}
	return fix.Here("deepspeed --master_addr=%s …", fix.Host(address))
}
