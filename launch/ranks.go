// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"strconv"

	"preflight/hostfile"
)

// Rank is one process of the launch.
type Rank struct {
	Rank int    `json:"rank"` // among all
	Node int    `json:"node"` // its host's place in Hosts
	Host string `json:"host"`
	// LocalRank is LOCAL_RANK as the process sees it, and Device the accelerator of
	// its host that it takes by that number.
	LocalRank int `json:"local_rank"`
	Device    int `json:"device"`
}

// WorldSize is how many processes there will be, 0 where that is not known: no
// slots were stated, or torchrun counts by itself.
func (p Prediction) WorldSize() int {
	if p.Total > 0 {
		return p.Total
	}
	total := 0
	for i := range p.starters() {
		devices := p.devices(i)
		if devices == nil {
			return 0
		}
		total += len(devices)
	}
	return total
}

// Ranks are the processes in rank order, nil where they are not known, as of a srun
// that is asked for more than its hosts are meant to have. A host's
// own follow one another, in hostfile order. Ranks of torchrun's c10d rendezvous
// are given out as nodes arrive, and those of srun where it puts them: the order
// is then only the likely one.
//
// launch.py numbers a host's processes by rank modulo their count since v0.9.4,
// which on hosts of different sizes is a rotation, and takes the slots in that
// order; before, by their place (deepspeed/launcher/launch.py, main).
func (p Prediction) Ranks() []Rank {
	if p.Total > 0 {
		return nil
	}
	var ranks []Rank
	for node := range p.starters() {
		devices := p.devices(node)
		if devices == nil {
			return nil
		}
		for i := range devices {
			rank := Rank{Rank: len(ranks), Node: node, Host: p.Hosts[node].Name, LocalRank: i}
			if p.rotates() {
				rank.LocalRank = rank.Rank % len(devices)
			}
			rank.Device = devices[rank.LocalRank]
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

func (p Prediction) rotates() bool {
	return p.ChoosesDevices() && !hostfile.Before(p.DeepSpeed, "0.9.4")
}

func (p Prediction) starters() int {
	if p.Torchrun() && p.Script != "" {
		return min(len(p.Hosts), cmp.Or(p.MaxNodes, 1))
	}
	return len(p.Hosts)
}

// devices are the accelerators of a host's processes, nil where their number is
// not known. Only launch.py of DeepSpeed hides the others from them.
func (p Prediction) devices(node int) []int {
	slots := p.Hosts[node].Slots
	if p.ChoosesDevices() {
		return slots
	}
	count := len(slots)
	switch perNode := p.perNode(); {
	case isNumber(perNode):
		count, _ = strconv.Atoi(perNode)
	case perNode == "cpu", slots == nil:
		return nil
	}
	return hostfile.FirstSlots(count)
}

// perNode is torchrun's --nproc_per_node, whose default is 1; "" for what has none.
func (p Prediction) perNode() string {
	if p.Torchrun() && p.Script != "" {
		return cmp.Or(p.PerNode, "1")
	}
	return p.PerNode
}

func isNumber(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 0
}
