// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/remedy"
	"preflight/facts"
)

func undoDriver(d topicChange) []fix.Command {
	at := slices.IndexFunc(d.changes, func(c checks.Change) bool {
		return (c.Fact == "nvml.driver" || c.Fact == "gpu.module") && unquoted(string(c.Before)) != ""
	})
	if at < 0 || d.node.NVML == nil {
		return nil
	}
	kind := ""
	if d.node.GPU != nil && d.node.GPU.OpenModule {
		kind = "open"
	}
	return []fix.Command{remedy.HowInstalled(d.node), remedy.ExactDriver(d.node, unquoted(string(d.changes[at].Before)), kind)}
}

// undoGPUs returns the command that shows the page of gpu-healthy, for failures that no check of
// this run reports. No command undoes other changes of GPUs.
func undoGPUs(d topicChange) []fix.Command {
	failed := func(c checks.Change) bool { return failures.MatchString(c.Fact) && c.Came() }
	if !slices.ContainsFunc(d.changes, failed) {
		return nil
	}
	return []fix.Command{fix.Here("preflight checks gpu-healthy   # how to repair it; before that, a new baseline would record the fault as normal").As(fix.Look)}
}

func undoPackages(d topicChange) []fix.Command {
	var unlike compare.Difference
	for _, c := range d.changes {
		if name, is := strings.CutPrefix(c.Fact, compare.PackagePath("")); is && d.node.Python.Found {
			unlike.Deviations = append(unlike.Deviations, compare.Deviation{Name: name, Want: unquoted(string(c.Before))})
		}
	}
	if unlike.Deviations == nil {
		return nil
	}
	return remedy.PipFix(d.view, unlike)
}

const setMTU = "sudo ip link set dev %s mtu %s   # until the next boot"

// undoMTU returns the commands that set each interface's former MTU. It leaves out interfaces that
// were added or removed.
func undoMTU(d topicChange) (commands []fix.Command) {
	for _, c := range d.changes {
		if !c.Came() && !c.Gone() {
			name := mtuFact.FindStringSubmatch(c.Fact)[1]
			commands = append(commands, fix.On(setMTU, fix.Name(name), fix.Number(sizeIn(c.Before))))
		}
	}
	return commands
}

// undoSHM returns the command that sets the former size of /dev/shm. The size is in bytes, because
// a rounded size would differ from the baseline.
func undoSHM(d topicChange) []fix.Command {
	at := slices.IndexFunc(d.changes, func(c checks.Change) bool { return c.Fact == "shm.size" })
	if at < 0 || !breaks(d.node, d.changes[at]) {
		return nil
	}
	return remedy.SizeSHM(d.node, sizeIn(d.changes[at].Before), "")
}

func undoHostname(d topicChange) []fix.Command {
	return []fix.Command{fix.On("sudo hostnamectl set-hostname %s", fix.Host(unquoted(string(d.changes[0].Before))))}
}

// undoInterfaces returns the command that renames an interface to its former name, which
// NCCL_SOCKET_IFNAME and other settings may use. For a missing interface, it returns the commands
// that help to find it.
//
// Source: Linux 6.2, net/core/dev.c, dev_change_name: since then an interface that is up can be
// renamed.
func undoInterfaces(d topicChange) (commands []fix.Command) {
	renamed := false
	for _, old := range d.before.Net.Interfaces {
		if old.Internal() || interfaceNamed(d.node.Net, old.Name) {
			continue
		}
		at := slices.IndexFunc(d.node.Net.Interfaces, func(i facts.Interface) bool {
			return !interfaceNamed(d.before.Net, i.Name) && oneInterface(old, i)
		})
		if at < 0 {
			commands = append(commands, fix.On("ip -br link; lspci | grep -i net   # does %s exist under another name, and is its adapter present?", fix.Text(remedy.WordOr(old.Name, "it"))).As(fix.Look))
			continue
		}
		now := d.node.Net.Interfaces[at].Name
		commands = append(commands, fix.On("sudo ip link set dev %s name %s", fix.Name(now), fix.Name(old.Name)).Remark("until the next boot; before Linux 6.2 the interface must be down, so do not use ssh over it"))
		renamed = true
	}
	if renamed {
		commands = append(commands, fix.Note("to make it permanent, use a udev rule, a systemd.link file or netplan's match and set-name with the MAC address, and the same name where the address is configured"))
	}
	return commands
}

func interfaceNamed(net *facts.Net, name string) bool {
	return slices.ContainsFunc(net.Interfaces, func(i facts.Interface) bool { return i.Name == name })
}

// oneInterface reports whether two names belong to the same interface. They do if they share a MAC
// address or an IP address. Normalized baselines have no MAC addresses.
func oneInterface(a, b facts.Interface) bool {
	return a.MAC != "" && a.MAC == b.MAC || slices.ContainsFunc(a.IPv4(), func(address string) bool { return slices.Contains(b.IPv4(), address) })
}
