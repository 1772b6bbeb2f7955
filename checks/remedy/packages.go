// SPDX-License-Identifier: Apache-2.0

// Package remedy builds commands that several families of checks print. Examples are commands for
// pip with the interpreter of the launch, and for packages of a distribution or a driver. Other
// commands copy files between machines, or start containers with other options.
//
// The package runs none of these commands. Package fix quotes their arguments.
package remedy

import (
	"regexp"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
)

// SystemOf returns the name of a machine's distribution, or "" if it was not seen.
func SystemOf(machine *facts.Node) string {
	if machine.Host == nil {
		return ""
	}
	return machine.Host.OS
}

// WordOr returns word if it fits into a remark, otherwise the text otherwise. A word with a line
// break does not fit, because the line break would end the remark.
func WordOr(word, otherwise string) string {
	if text.IsPlain(word) {
		return word
	}
	return otherwise
}

// Program returns the name of the program that starts the ranks.
func Program(view checks.View) string {
	if view.Launch.Rendezvous == launch.RendezvousC10d || view.Launch.Rendezvous == launch.RendezvousStatic {
		return launch.ProgramTorchrun
	}
	return launch.ProgramDeepSpeed
}

// Pip returns the pip of the launch's interpreter.
func Pip(view checks.View) fix.Pip {
	python := view.Launch.Interpreter
	nodes := ranks.Answering(view)
	if python == "" && len(nodes) > 0 {
		python = nodes[0].Python.Path
	}
	return fix.Pip{Python: python, Managed: slices.ContainsFunc(nodes, func(n *facts.Node) bool {
		return n.Python.Prefix == "/usr" && !hostfile.Before(n.Python.Version, "3.11")
	})}
}

// PipFix returns the commands that install, of many packages, the versions that most nodes have. If
// there is no majority, only the user knows which side is right. PipFix then returns only a command
// that lists the packages.
func PipFix(view checks.View, d compare.Difference) []fix.Command {
	if d.Split {
		return []fix.Command{Pip(view).List().As(fix.Look)}
	}
	var install []fix.Requirement
	var remove []string
	for _, dev := range d.Deviations {
		if dev.Want == "" || HidesWanted(view, d.Nodes, dev) {
			remove = append(remove, dev.Name)
		} else {
			install = append(install, fix.Requirement{Name: dev.Name, Version: dev.Want})
		}
	}
	commands := Pip(view).Install(install)
	if remove != nil {
		commands = append(commands, Pip(view).Run("uninstall -y %s", fix.List[fix.Package](" ", remove)))
	}
	return fix.Steps(commands...)
}

// hiding matches the line in the facts about a package that is installed twice. Python uses the
// installation that it finds first.
var hiding = regexp.MustCompile(`^(\S+) \S+ in (.+) hides (\S+) in (.+)$`)

// HidesWanted reports whether each of the nodes has the wanted version, hidden by another
// installation of the same package in another directory. It is then enough to remove the hiding
// installation. pip does that, because it removes the first installation that it finds.
func HidesWanted(view checks.View, nodes []string, dev compare.Deviation) bool {
	hides := func(line string) bool {
		m := hiding.FindStringSubmatch(line)
		return m != nil && m[1] == dev.Name && m[2] != m[4] && (m[3] == dev.Want || strings.HasPrefix(m[3], dev.Want+"+"))
	}
	having := 0
	for _, node := range ranks.Answering(view) {
		if slices.Contains(nodes, node.Name) && slices.ContainsFunc(node.Python.Shadowed, hides) {
			having++
		}
	}
	return having > 0 && having == len(nodes)
}

// DriverPackages returns the names of Ubuntu's packages for a driver version and the matching
// fabric manager. They are the packages of the version's branch (550 for "550.54.15"), with the
// given kind of kernel module.
func DriverPackages(node *facts.Node, version, kind string) []string {
	branch := hostfile.Release(version, 1)
	server := "nvidia-driver-" + branch + "-server"
	if kind == "open" || openOnly(node) {
		server += "-open"
	}
	packages := []string{server}
	if node.GPU != nil && (node.GPU.NVSwitches > 0 || node.GPU.FabricManager != nil && node.GPU.FabricManager.Installed) {
		packages = append(packages, "nvidia-fabricmanager-"+branch)
	}
	return packages
}

// openOnly reports whether the node's GPUs work only with the open kernel module. These are the
// GPUs of Blackwell and later, and of Grace Hopper.
//
// Source: NVIDIA, Driver Installation Guide, r570, kernel modules: "NVIDIA Grace Hopper or NVIDIA
// Blackwell … must use the open-source GPU kernel modules".
func openOnly(node *facts.Node) bool {
	least := "10.0"
	if node.Host != nil && node.Host.Arch == "aarch64" {
		least = "9.0"
	}
	return slices.ContainsFunc(node.NVML.Cards, func(card facts.Card) bool { return card.Capability != "" && !hostfile.Before(card.Capability, least) })
}

// IsUbuntu reports whether DriverPackages applies to a node. Debian and NVIDIA's own repositories
// have other packages, with other versions.
func IsUbuntu(node *facts.Node) bool {
	return node.Host != nil && strings.HasPrefix(node.Host.OS, "Ubuntu")
}

// ExactDriver returns the command that installs a driver of a given version and kind. Show
// HowInstalled before it. The packages of a branch have the newest version of the branch. The
// command pins them, and their dependencies, to the given version if the repository still has it.
func ExactDriver(node *facts.Node, version, kind string) fix.Command {
	if node.NVML.Source == facts.SourceAMD {
		return fix.Note("install driver %s in the same way as the present one, then reboot, and check the version in /sys/module/amdgpu/version", fix.Text(WordOr(version, "of the wanted version")))
	}
	if !IsUbuntu(node) {
		if kind != "" {
			kind = " with the " + kind + " kernel module"
		}
		return fix.Note("install driver %s in the same way as the present one, then reboot, and check the version with nvidia-smi", fix.Text(WordOr(version, "of the wanted version")+kind))
	}
	return OnMachine(node, fix.On(`printf 'Package: *nvidia*\nPin: version %s*\nPin-Priority: 1001\n' | sudo tee /etc/apt/preferences.d/nvidia-driver; sudo apt-get install -y %s`,
		fix.Name(version), fix.List[fix.Name](" ", DriverPackages(node, version, kind))).Remark("Ubuntu; then reboot, and check the version with nvidia-smi"))
}

// HowInstalled returns the command that shows how the driver of a node was installed.
func HowInstalled(node *facts.Node) fix.Command {
	if node.NVML.Source == facts.SourceAMD {
		return fix.On("cat /sys/module/amdgpu/version; uname -r; dkms status; dpkg -l 'amdgpu*' 'rocm*' | grep ^ii; rpm -qa 'amdgpu*' 'rocm*'   # shows how it was installed").As(fix.Look)
	}
	return nvidiaInstalled
}

var nvidiaInstalled = fix.On("cat /proc/driver/nvidia/version; dkms status; dpkg -l 'nvidia-*' | grep ^ii; rpm -qa '*nvidia*'   # shows how it was installed").As(fix.Look)

// ModuleKind returns the kind of the kernel module, "open" or "proprietary", or "" if it was not
// seen.
func ModuleKind(node *facts.Node) string {
	switch {
	case node.GPU == nil || node.GPU.Module == "":
		return ""
	case node.GPU.OpenModule:
		return "open"
	}
	return "proprietary"
}
