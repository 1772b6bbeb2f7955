// SPDX-License-Identifier: Apache-2.0

package gpus

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Tree is a set of files by name. The value is a text, or the target of a link if it begins with
// "-> ".
type Tree map[string]string

const linkTo = "-> "

func (t Tree) Write(root string) error {
	for name, text := range t {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if target, link := strings.CutPrefix(text, linkTo); link {
			if err := os.Symlink(target, path); err != nil {
				return err
			}
			continue
		}
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(text, "#!") || strings.HasPrefix(text, "\x7fELF") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			return err
		}
	}
	return nil
}

// DeviceNames returns the names of the driver's nodes in /dev.
func (g Machine) DeviceNames() []string {
	if g.Module == "" {
		return nil
	}
	names := []string{"nvidiactl"}
	if !g.NoUVM {
		names = append(names, "nvidia-uvm", "nvidia-uvm-tools")
	}
	for i := range g.driven().Cards {
		names = append(names, fmt.Sprintf("nvidia%d", i))
	}
	return names
}

// ProcFiles returns the files of /proc/driver, in the format of NVIDIA's kernel modules 535 to 570.
func (g Machine) ProcFiles() Tree {
	if g.Module == "" {
		return nil
	}
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	version := fmt.Sprintf("NVIDIA UNIX %s Kernel Module  %s  Tue Mar  5 22:23:56 UTC 2024", machine, g.Module)
	if g.OpenModule {
		version = fmt.Sprintf("NVIDIA UNIX Open Kernel Module for %s  %s  Release Build  (dvs-builder@U16)  Tue Mar  5 22:15:33 UTC 2024", machine, g.Module)
	}
	files := Tree{
		"nvidia/params":  "EnableMSI: 1\nNVreg_RegistryDwords: \"\"\n",
		"nvidia/version": "NVRM version: " + version + "\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n",
	}
	for i, card := range g.driven().Cards {
		files["nvidia/gpus/"+card.Address()+"/information"] = fmt.Sprintf(
			"Model: \t\t %s\nIRQ:   \t\t %d\nGPU UUID: \t %s\nVideo BIOS: \t %s\nBus Type: \t PCIe\nBus Location: \t %s\nDevice Minor: \t %d\n",
			card.Name, 120+i, card.UUID, card.VBIOS, card.Address(), i)
	}
	return files
}

// SysModule returns the files of the loaded modules in /sys/module.
func (g Machine) SysModule() Tree {
	switch {
	case g.Module == "" && g.Bound != "":
		return Tree{strings.ReplaceAll(g.Bound, "-", "_") + "/initstate": "live\n"}
	case g.Module == "":
		return nil
	}
	files := Tree{"nvidia/version": g.Module + "\n", "nvidia/initstate": "live\n", "nvidia_modeset/initstate": "live\n"}
	if !g.NoUVM {
		files["nvidia_uvm/initstate"] = "live\n"
	}
	return files
}

func (g Machine) boundTo() string {
	if g.Module != "" {
		return "nvidia"
	}
	return g.Bound
}

// PCIDevices returns the files of the cards, the NVSwitches and their bridges in /sys/devices.
// pciLinks returns the links to these devices in /sys/bus/pci/devices.
func (g Machine) PCIDevices() Tree {
	files := Tree{}
	for _, card := range g.Cards {
		for depth, address := range card.Path[1:] {
			dir := filepath.Join(card.Path[:depth+2]...)
			if address != card.Address() {
				files.addPCI(dir, "0x8086", "0x352a", "0x060400", card.NUMA)
				files[dir+"/config"] = g.bridgeConfig()
				continue
			}
			files.addPCI(dir, "0x10de", fmt.Sprintf("0x%04x", card.Device), "0x030200", card.NUMA)
			if g.IOMMU != "" {
				files[dir+"/iommu_group/type"] = g.IOMMU + "\n"
			}
			if driver := g.boundTo(); driver != "" && !card.Unbound {
				files[dir+"/driver"] = linkTo + strings.Repeat("../", len(card.Path)+1) + "bus/pci/drivers/" + driver
			}
		}
	}
	for i := range g.NVSwitches {
		address := switchAddress(i)
		files.addPCI(filepath.Join("pci"+address[:7], address), "0x10de", "0x22a3", "0x068000", 0)
	}
	return files
}

// bridgeConfig returns the configuration space of a bridge. Access control is the first extended
// capability (PCI Express Base Specification, 7.7.8).
func (g Machine) bridgeConfig() string {
	config := make([]byte, 4096)
	copy(config[0x100:], []byte{0x0d, 0, 1, 0}) // access control, version 1, no further capability
	if g.ACS {
		config[0x106] = 0x1d // enables source validation, both redirects and upstream forwarding
	}
	return string(config)
}

func (t Tree) addPCI(dir, vendor, device, class string, numa int) {
	t[dir+"/vendor"], t[dir+"/device"], t[dir+"/class"] = vendor+"\n", device+"\n", class+"\n"
	t[dir+"/numa_node"] = fmt.Sprintf("%d\n", numa)
}

func (g Machine) PCILinks() Tree {
	links := Tree{}
	for name := range g.PCIDevices() {
		dir, file := filepath.Split(name)
		if file != "vendor" {
			continue
		}
		dir = filepath.Clean(dir)
		links[filepath.Base(dir)] = linkTo + "../../../devices/" + dir
	}
	return links
}

// Programs returns the files that the driver's packages add to /usr/bin.
func (g Machine) Programs() Tree {
	files := Tree{}
	if g.FabricManager != "" {
		files["nv-fabricmanager"] = strings.ReplaceAll(fabricManager, "VERSION", g.FabricManager)
	}
	return files
}

const FabricManagerPID = "/run/nvidia-fabricmanager/nv-fabricmanager.pid"

// fabricManager prints its version, or starts a background process with its own name. It writes the
// PID of that process to the same file as NVIDIA's fabric manager.
const fabricManager = `#!/bin/sh
# Stands in for NVIDIA's fabric manager.
case $1 in
--version) echo "Fabric Manager version is : VERSION"; exit ;;
--stay) while :; do sleep infinity; done ;;
esac
mkdir -p /run/nvidia-fabricmanager
setsid "$0" --stay </dev/null >/dev/null 2>&1 &
echo $! >` + FabricManagerPID + `
until read -r name </proc/$!/comm && [ "$name" = nv-fabricmanage ]; do sleep 0.01; done
`
