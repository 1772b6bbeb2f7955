// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"preflight/facts"
	"preflight/probe/machine"
)

const (
	// virtualTopology is the file that NCCL reads if NCCL_TOPO_FILE is not set. NVIDIA's topology
	// daemon writes it in a virtual machine.
	virtualTopology = "/var/run/nvidia-topologyd/virtualTopology.xml"
	// topologyLimit is the time limit for reading all topology files. A file on a dead mount must
	// not block the environment section.
	topologyLimit = time.Second
	// topologySize is the largest file that is read, in bytes. It is far more than NCCL can hold.
	topologySize = 4 << 20
	// topologyMost is how many GPUs, and how many NICs, are reported for a file.
	topologyMost = 128
)

// topologyFiles returns the files that NCCL will read on this machine. The launch's exports take
// precedence over the variables of this session and over NCCL's configuration files.
//
// Source: NVIDIA/nccl 2.12 to 2.30.7, graph/topo.cc, ncclTopoGetSystem, and graph/search.cc,
// ncclTopoCompute.
func topologyFiles(ctx context.Context, o machine.Options, settings []facts.Setting) []facts.TopologyFile {
	files := []facts.TopologyFile{}
	for _, variable := range []string{facts.TopologyVariable, facts.GraphVariable} {
		path := o.Exports[variable]
		if at := slices.IndexFunc(settings, func(s facts.Setting) bool { return s.Name == variable }); path == "" && at >= 0 {
			path = settings[at].Value
		}
		if path != "" && !filepath.IsAbs(path) { // ranks resolve a relative path from the working directory
			path = filepath.Join(o.WorkDir, path)
		}
		switch {
		case path != "":
			files = append(files, facts.TopologyFile{Variable: variable, Path: path})
		case variable == facts.TopologyVariable && machine.Exists(o.At(virtualTopology)):
			files = append(files, facts.TopologyFile{Path: virtualTopology})
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, topologyLimit, fmt.Errorf("not read within %s", topologyLimit))
	defer cancel()
	for i, named := range files {
		read, err := machine.Within(ctx, func() (facts.TopologyFile, error) { return readTopology(o, named), nil })
		if err != nil {
			files[i].Unread = err.Error()
			continue
		}
		files[i] = read
	}
	return files
}

func readTopology(o machine.Options, file facts.TopologyFile) facts.TopologyFile {
	text, err := readOrdinary(o.At(file.Path), topologySize+1)
	switch {
	case err != nil:
		file.Problem = machine.Reason(err)
		return file
	case len(text) > topologySize:
		file.Unread = "it is too large for a topology file"
		return file
	}
	sum := sha256.Sum256(text)
	file.Digest = hex.EncodeToString(sum[:])
	root := "system"
	if file.Variable == facts.GraphVariable {
		root = "graphs"
	}
	seen := machineInXML{}
	found, err := readNCCLXML(text, root, seen.addDevice)
	file.GPUs, file.NICs = shortened(seen.gpus), shortened(seen.nics)
	switch {
	case err != nil:
		file.Malformed = err.Error()
	case !found:
		file.Problem = "it has no <" + root + ">"
	}
	return file
}

func shortened(addresses []string) []string {
	addresses = addresses[:min(len(addresses), topologyMost)]
	for i, address := range addresses {
		addresses[i] = machine.Clipped(address)
	}
	return addresses
}

// machineInXML collects the PCI devices of a topology. Files from clouds show the kind of a device
// by its class. Files that NCCL writes show it by child elements.
type machineInXML struct{ gpus, nics []string }

func (m *machineInXML) addDevice(of, parent *ncclElement) {
	class, address := of.attributes["class"], of.attributes["busid"]
	if of.name == "gpu" || of.name == "nic" {
		class, address = map[string]string{"gpu": "0x03", "nic": "0x02"}[of.name], parent.attributes["busid"]
	}
	switch {
	case address == "" || len(class) < 4:
	case class[:4] == "0x03" && !slices.Contains(m.gpus, address):
		m.gpus = append(m.gpus, address)
	case class[:4] == "0x02" && !slices.Contains(m.nics, address):
		m.nics = append(m.nics, address)
	}
}
