// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

// DriverPackages are Ubuntu's packages of a driver's branch ("550.54.15" is of 550)
// with a kind of kernel module, and of the fabric manager that must go with it.
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

// openOnly is whether the GPUs work with the open kernel module alone: those of
// Blackwell and later, and those of Grace Hopper.
//
// Source: NVIDIA, Driver Installation Guide, r570, kernel modules: "NVIDIA Grace Hopper or
// NVIDIA Blackwell … must use the open-source GPU kernel modules".
func openOnly(node *facts.Node) bool {
	least := "10.0"
	if node.Host != nil && node.Host.Arch == "aarch64" {
		least = "9.0"
	}
	return slices.ContainsFunc(node.NVML.Cards, func(card facts.Card) bool { return card.Capability != "" && !hostfile.Before(card.Capability, least) })
}

// IsUbuntu is whether the packages of driverPackages are a node's. Debian, and what NVIDIA
// packages itself, have other ones, in versions of their own.
func IsUbuntu(node *facts.Node) bool {
	return node.Host != nil && strings.HasPrefix(node.Host.OS, "Ubuntu")
}

// ExactDriver installs a version and a kind of driver, behind howInstalled. A branch's
// packages are of its newest version; a pin holds all of them, and what they need, to
// another one where the repository still has it.
func ExactDriver(node *facts.Node, version, kind string) fix.Command {
	if node.NVML.Source == facts.SourceAMD {
		return fix.Note("install driver %s in the way that this one came to be installed, then reboot, and see in /sys/module/amdgpu/version that it is the wanted one", fix.Text(WordOr(version, "of the wanted version")))
	}
	if !IsUbuntu(node) {
		if kind != "" {
			kind = " with the " + kind + " kernel module"
		}
		return fix.Note("install driver %s in the way that this one came to be installed, then reboot, and see with nvidia-smi that it is the wanted one", fix.Text(WordOr(version, "of the wanted version")+kind))
	}
	return OnMachine(node, fix.On(`printf 'Package: *nvidia*\nPin: version %s*\nPin-Priority: 1001\n' | sudo tee /etc/apt/preferences.d/nvidia-driver; sudo apt-get install -y %s`,
		fix.Name(version), fix.List[fix.Name](" ", DriverPackages(node, version, kind))).Remark("Ubuntu; then reboot, and see with nvidia-smi that it is the wanted one"))
}

// HowInstalled shows where the driver of a node came from.
func HowInstalled(node *facts.Node) fix.Command {
	if node.NVML.Source == facts.SourceAMD {
		return fix.On("cat /sys/module/amdgpu/version; uname -r; dkms status; dpkg -l 'amdgpu*' 'rocm*' | grep ^ii; rpm -qa 'amdgpu*' 'rocm*'   # how it came to be installed")
	}
	return nvidiaInstalled
}

var nvidiaInstalled = fix.On("cat /proc/driver/nvidia/version; dkms status; dpkg -l 'nvidia-*' | grep ^ii; rpm -qa '*nvidia*'   # how it came to be installed")

// ModuleKind is whether the kernel module is the open one, "" where it was not seen.
func ModuleKind(node *facts.Node) string {
	switch {
	case node.GPU == nil || node.GPU.Module == "":
		return ""
	case node.GPU.OpenModule:
		return "open"
	}
	return "proprietary"
}
