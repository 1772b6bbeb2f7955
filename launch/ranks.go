// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"strconv"

	"preflight/hostfile"
)

// Rank is one process of the launch.
type Rank struct {
	Rank int    `json:"rank"` // global rank
	Node int    `json:"node"` // index of the rank's host in Hosts
	Host string `json:"host"`
	// LocalRank is LOCAL_RANK as the process sees it. Device is the index of the host's accelerator
	// that the process uses under that number.
	LocalRank int `json:"local_rank"`
	Device    int `json:"device"`
}

// WorldSize returns the number of processes. It returns 0 if the number is unknown, because no
// slots were given or torchrun counts the processes itself.
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

// Ranks returns the processes in rank order. It returns nil if they are unknown, for example if
// DeepSpeed requests more ranks from srun than the hosts should have. The ranks of a host are
// consecutive, and hosts are in the order of the hostfile. torchrun's c10d rendezvous numbers nodes
// as they arrive, and srun places ranks itself. For both, the returned order is only likely.
//
// Since v0.9.4 launch.py numbers a host's processes by rank modulo their count, which is a rotation
// on hosts of different sizes. It assigns the slots in that order. Earlier releases numbered the
// processes by position (deepspeed/launcher/launch.py, main).
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

// devices returns the accelerators of a host's processes, nil if their number is unknown. Only
// DeepSpeed's launch.py hides the host's other accelerators from the processes.
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

// perNode returns torchrun's --nproc_per_node, whose default is 1; "" for other programs.
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
