// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/probe/machine"
)

const (
	imexChannels = "/dev/nvidia-caps-imex-channels"
	imexConfig   = "/etc/nvidia-imex/config.cfg"
	imexNodes    = "/etc/nvidia-imex/nodes_config.cfg"
	imexMost     = 1000 // machines of a list that are kept
)

// imex looks for the channels and the service by which machines that NVLink joins share
// memory. Where the service does not show, as in a container, it may run outside.
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

// imexPeers are the machines that the service is to talk to: one a line of the file that its
// configuration names.
//
// Source: NVIDIA, IMEX Service for NVLink Networks, Config Options, IMEX_NODE_CONFIG_FILE;
// NVIDIA/k8s-dra-driver-gpu 0.5.0-dev, templates/compute-domain-daemon-config.tmpl.cfg.
func imexPeers(o machine.Options) (peers []string, unread string) {
	path := imexNodes
	config, _ := os.ReadFile(o.At(imexConfig)) // without one, or one that names no file, it is that
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
