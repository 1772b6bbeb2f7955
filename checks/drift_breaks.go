package checks

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"

	"preflight/facts"
)

var (
	mtuFact = regexp.MustCompile(`^net\.interfaces\.(.+)\.mtu$`)
	nicFact = regexp.MustCompile(`^net\.interfaces\.(.+?)(\.addresses)?$`)
	gpuFact = regexp.MustCompile(`^nvml\.cards\.\d+$`)

	// breaking are facts of which no other value is harmless: one node with another one
	// cannot talk to its peers, or not start.
	breaking = regexp.MustCompile(`^nvml\.driver$|^gpu\.module$|^python\.(found$|torch\.|nccl\.|protobuf\.)|^python\.packages\.(torch|protobuf|nvidia-nccl-[a-z0-9-]+)$`)
	// failures are facts that are there when something is out of order.
	failures = regexp.MustCompile(`^nvml\.(cards\.\d+\.)?failure\.`)
	// able are those that say false when something is not usable any more.
	able = regexp.MustCompile(`^shm\.(exists|mounted|writable)$`)
)

// breaks is whether a change ends launches. A node that newly has a thing breaks none
// by that, but for a package that the others lack.
func breaks(node *facts.Node, c Change) bool {
	switch {
	case breaking.MatchString(c.Fact):
		return true
	case mtuFact.MatchString(c.Fact):
		return leadsAway(node, mtuFact.FindStringSubmatch(c.Fact)[1])
	case failures.MatchString(c.Fact):
		return c.came()
	case able.MatchString(c.Fact):
		return string(c.After) == "false"
	case c.Fact == "gpu.devices":
		return entriesIn(c.After) < entriesIn(c.Before)
	case c.Fact == "shm.size":
		return sizeIn(c.After) < sizeIn(c.Before)
	case gpuFact.MatchString(c.Fact):
		return c.gone()
	case nicFact.MatchString(c.Fact):
		// An interface that has gone, or that has no address any more.
		part := nicFact.FindStringSubmatch(c.Fact)
		whole := string(c.Before) == present || part[2] != ""
		return c.gone() && whole && !facts.Interface{Name: part[1]}.ForContainers()
	}
	return false
}

// leadsAway is whether ranks may talk by an interface: it leads to the other nodes, or
// could.
func leadsAway(node *facts.Node, name string) bool {
	if name == peerInterface(node) {
		return true
	}
	at := slices.IndexFunc(node.Net.Interfaces, func(i facts.Interface) bool { return i.Name == name })
	return at < 0 || !node.Net.Interfaces[at].Internal()
}

// entriesIn is how many entries a list has, 0 for one that is not there.
func entriesIn(list json.RawMessage) int {
	var entries []any
	if json.Unmarshal(list, &entries) != nil {
		return 0
	}
	return len(entries)
}

// sizeIn is a number of bytes, 0 for one that is not there.
func sizeIn(size json.RawMessage) int64 {
	bytes, err := strconv.ParseInt(string(size), 10, 64)
	if err != nil {
		return 0
	}
	return bytes
}
