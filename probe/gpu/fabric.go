// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

const (
	// fabricLimit is the time limit for each program that asks about the fabric.
	fabricLimit = time.Second
	// fabricComm is the name of nv-fabricmanager in the process table, which keeps only 15
	// characters.
	fabricComm = "nv-fabricmanage"
)

// fabricVersion matches "Fabric Manager version is : 550.54.15".
var fabricVersion = lazyregexp.New(`[Vv]ersion is\s*:?\s*(\d+(?:\.\d+)+)`)

// fabricManager describes the service that configures NVSwitches. It returns nil if there is
// neither the service nor a visible switch. In a container the service is not visible, because it
// runs outside the container.
func fabricManager(ctx context.Context, o machine.Options, switches int) *facts.FabricManager {
	program := serviceProgram(o, "nv-fabricmanager")
	if program == "" && switches == 0 {
		return nil
	}
	manager := &facts.FabricManager{Installed: program != "", Running: processRuns(o, fabricComm)}
	var asking sync.WaitGroup
	if program != "" {
		asking.Go(func() {
			output, _, _ := hostsys.Child{Path: program, Args: []string{"--version"}, Limit: fabricLimit}.Run(ctx)
			if match := fabricVersion.FindStringSubmatch(output); match != nil {
				manager.Version = match[1]
			}
		})
	}
	asking.Go(func() { manager.State = unitState(ctx, o, "nvidia-fabricmanager") })
	asking.Wait()
	return manager
}

// serviceProgram returns the path of a service's program, in PATH or in the directory where
// NVIDIA's packages install it. It returns "" if there is none.
func serviceProgram(o machine.Options, name string) string {
	for _, place := range []string{name, o.At("/usr/bin/" + name), o.At("/usr/sbin/" + name), o.At("/usr/local/bin/" + name)} {
		if path, err := exec.LookPath(place); err == nil {
			return path
		}
	}
	return ""
}

// unitState returns systemd's state of a unit, "" if systemd did not start the machine
// (sd_booted(3)) or does not answer in time.
func unitState(ctx context.Context, o machine.Options, unit string) string {
	if !machine.Exists(o.At("/run/systemd/system")) {
		return ""
	}
	systemctl, err := exec.LookPath("systemctl")
	if err != nil {
		return ""
	}
	// The answer includes the property's name, because the option to leave it out needs systemd
	// 230.
	output, _, _ := hostsys.Child{Path: systemctl, Args: []string{"show", "-p", "ActiveState", unit}, Limit: fabricLimit}.Run(ctx)
	_, state, _ := strings.Cut(strings.TrimSpace(output), "ActiveState=")
	return machine.Clipped(state)
}

// processRuns reports whether a process with the given name exists.
func processRuns(o machine.Options, comm string) bool {
	return slices.ContainsFunc(machine.Processes(o), func(pid int) bool { return machine.ProcessName(o, pid) == comm })
}

// switchDoors returns the ConnectX-7 functions through which the fabric manager of HGX B200 and
// B300 reaches the NVSwitches. These NVSwitches are not on the PCI bus. The vital product data of
// an adapter identifies such a function. The result is nil if one adapter's data cannot be read.
//
// Source: NVIDIA, Fabric Manager User Guide, r570, HGX B200: SMDL=SW_MNG; Linux 6.8,
// drivers/pci/vpd.c: only root may read the file.
func switchDoors(o machine.Options) []string {
	const most = 4 << 10 // more bytes than the data of a ConnectX adapter has
	doors := []string{}
	files, _ := filepath.Glob(o.At("/sys/class/infiniband/*/device/vpd")) // the pattern is valid
	for _, file := range files {
		vpd, err := os.Open(file)
		if err != nil {
			return nil
		}
		data, err := io.ReadAll(io.LimitReader(vpd, most))
		vpd.Close()
		if err != nil && len(data) == 0 {
			return nil
		}
		if bytes.Contains(data, []byte("SMDL=SW_MNG")) {
			doors = append(doors, filepath.Base(filepath.Dir(filepath.Dir(file))))
		}
	}
	return doors
}

const (
	imexChannels = "/dev/nvidia-caps-imex-channels"
	imexConfig   = "/etc/nvidia-imex/config.cfg"
	imexNodes    = "/etc/nvidia-imex/nodes_config.cfg"
	imexMost     = 1000 // maximum number of machines to keep from the list
)

// imex describes the channels and the service with which machines that NVLink connects share
// memory. If the service is not visible, as in a container, it may run outside the container.
func imex(ctx context.Context, o machine.Options) *facts.IMEX {
	seen := &facts.IMEX{Channels: []facts.DeviceNode{}, Installed: serviceProgram(o, "nvidia-imex") != "", Running: processRuns(o, "nvidia-imex")}
	for _, path := range deviceNodes(o, imexChannels, "channel") {
		seen.Channels = append(seen.Channels, deviceNode(path, access(o.At(path))))
	}
	if seen.Installed {
		seen.State = unitState(ctx, o, "nvidia-imex")
	}
	seen.Peers, seen.PeersUnread = imexPeers(o)
	return seen
}

// imexPeers returns the machines that the service must reach. The service's configuration names a
// file that lists them, one per line.
//
// Source: NVIDIA, IMEX Service for NVLink Networks, Config Options, IMEX_NODE_CONFIG_FILE;
// NVIDIA/k8s-dra-driver-gpu 0.5.0-dev, templates/compute-domain-daemon-config.tmpl.cfg.
func imexPeers(o machine.Options) (peers []string, unread string) {
	path := imexNodes
	config, _ := os.ReadFile(o.At(imexConfig)) // if no configuration names a file, the default path is used
	for line := range strings.Lines(string(config)) {
		if name, given := strings.CutPrefix(strings.TrimSpace(line), "IMEX_NODE_CONFIG_FILE="); given && name != "" {
			path = name
		}
	}
	list, err := os.ReadFile(o.At(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "there is no " + machine.Clipped(path)
	case err != nil:
		return nil, machine.Clipped(path) + ": " + machine.Reason(err)
	}
	peers = []string{}
	for line := range strings.Lines(string(list)) {
		if line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) != "" && len(peers) < imexMost {
			peers = append(peers, machine.Clipped(strings.TrimSpace(line)))
		}
	}
	slices.Sort(peers)
	return slices.Compact(peers), ""
}
