package checks

import (
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
)

// nicBack gives an interface its name again, by which NCCL_SOCKET_IFNAME and the like may
// call it, and says where to look for one that is nowhere.
//
// Source: Linux 6.2, net/core/dev.c, dev_change_name: from there on an interface that is up
// can be renamed.
func nicBack(d deed) (commands []fix.Command) {
	renamed := false
	for _, old := range d.before.Net.Interfaces {
		if old.Internal() || interfaceNamed(d.node.Net, old.Name) {
			continue
		}
		at := slices.IndexFunc(d.node.Net.Interfaces, func(i facts.Interface) bool {
			return !interfaceNamed(d.before.Net, i.Name) && oneInterface(old, i)
		})
		if at < 0 {
			commands = append(commands, fix.On("ip -br link; lspci | grep -i net   # is %s there by another name, and its adapter at all?", fix.Text(wordOr(old.Name, "it"))))
			continue
		}
		now := d.node.Net.Interfaces[at].Name
		commands = append(commands, fix.On("sudo ip link set dev %s name %s", fix.Name(now), fix.Name(old.Name)).Remark("until the next boot; before Linux 6.2 with the interface down, so not by ssh over it"))
		renamed = true
	}
	if renamed {
		commands = append(commands, fix.Note("for good: a rule of udev, a systemd.link file or netplan's match and set-name, by the MAC address; then see that what configures the address names the same"))
	}
	return commands
}

// wordOr is a word for the remark behind a command, which a line break would end.
func wordOr(word, otherwise string) string {
	if fix.IsPlain(word) {
		return word
	}
	return otherwise
}

func interfaceNamed(net *facts.Net, name string) bool {
	return slices.ContainsFunc(net.Interfaces, func(i facts.Interface) bool { return i.Name == name })
}

// oneInterface is whether two names are one interface's: by its MAC address, which a
// normalized baseline lacks, or by an address that it still has.
func oneInterface(a, b facts.Interface) bool {
	return a.MAC != "" && a.MAC == b.MAC || slices.ContainsFunc(a.IPv4(), func(address string) bool { return slices.Contains(b.IPv4(), address) })
}
