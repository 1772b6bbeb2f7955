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
	// fabricLimit is the time limit for each of the two programs.
	fabricLimit = time.Second
	// fabricComm is nv-fabricmanager in the process table, which keeps only 15 characters.
	fabricComm = "nv-fabricmanage"
)

// fabricVersion matches "Fabric Manager version is : 550.54.15".
var fabricVersion = lazyregexp.New(`[Vv]ersion is\s*:?\s*(\d+(?:\.\d+)+)`)

// fabricManager looks for the service that configures NVSwitches. It returns nil if there is
// neither the service nor a visible switch. For a container the service runs outside, where only
// the machine sees it.
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

// serviceProgram returns a service's program, from PATH or from where NVIDIA's packages install it;
// "" for none.
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
	// The name stays in the answer: the option to leave it out needs systemd 230.
	output, _, _ := hostsys.Child{Path: systemctl, Args: []string{"show", "-p", "ActiveState", unit}, Limit: fabricLimit}.Run(ctx)
	_, state, _ := strings.Cut(strings.TrimSpace(output), "ActiveState=")
	return machine.Clipped(state)
}

// processRuns reports whether a process of that name exists.
func processRuns(o machine.Options, comm string) bool {
	entries, _ := os.ReadDir(o.At("/proc")) // if it cannot be read, no process is found
	for _, entry := range entries {
		if name := entry.Name(); name[0] >= '0' && name[0] <= '9' && machine.Line(o.At(filepath.Join("/proc", name, "comm"))) == comm {
			return true
		}
	}
	return false
}

// switchDoors returns the ConnectX-7 functions through which the fabric manager of HGX B200 and
// B300 reaches their NVSwitches, which are not on the bus. The adapters' vital product data
// identifies them; nil if one adapter's cannot be read.
//
// Source: NVIDIA, Fabric Manager User Guide, r570, HGX B200: SMDL=SW_MNG; Linux 6.8,
// drivers/pci/vpd.c: only root may read the file.
func switchDoors(o machine.Options) []string {
	const most = 4 << 10 // more than ConnectX has
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
	imexMost     = 1000 // machines in the list that are kept
)

// imex looks for the channels and the service with which machines that NVLink connects share
// memory. If the service is not visible, as in a container, it may run outside.
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

// imexPeers returns the machines that the service must reach: one per line of the file that its
// configuration names.
//
// Source: NVIDIA, IMEX Service for NVLink Networks, Config Options, IMEX_NODE_CONFIG_FILE;
// NVIDIA/k8s-dra-driver-gpu 0.5.0-dev, templates/compute-domain-daemon-config.tmpl.cfg.
func imexPeers(o machine.Options) (peers []string, unread string) {
	path := imexNodes
	config, _ := os.ReadFile(o.At(imexConfig)) // no configuration, or none that names a file: use the default path
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
