// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

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
