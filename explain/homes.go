// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strconv"
	"strings"
)

// homes is on which node each rank is, as messages of any kind tell by the way: the failure of a
// rank often tells only its number, and the launcher's table after it the node.
type homes struct {
	written map[string]string // by rank, of who wrote a line or whom a table is about; "" where they contradict each other
	counted map[string]string // by rank, as mpirun and srun count the processes that they started
	files   map[int]string    // by source, where all of a log is of one node
	// nested is whether the processes that mpirun or srun started are themselves launchers, whose
	// ranks have other numbers.
	nested bool
}

func newHomes() homes {
	return homes{written: map[string]string{}, counted: map[string]string{}, files: map[int]string{}}
}

// learn takes what a message tells, whose speaker is only what its line says.
func (h *homes) learn(e event, file int) {
	if e.node != "" && e.rank != "" {
		put(h.written, e.rank, e.node)
	}
	if node := e.values["node"]; node != "" {
		for _, rank := range append(numbersIn(e.values["ranks"]), e.values["rank"]) {
			if rank != "" {
				put(h.counted, rank, node)
			}
		}
	}
	if node := e.values["machine"]; node != "" {
		put(h.files, file, node)
	}
	h.nested = h.nested || e.local != "" || e.values["local"] != ""
}

// put notes where one is; two different words are none.
func put[K comparable](homes map[K]string, of K, node string) {
	known, told := homes[of]
	switch {
	case !told && len(homes) < mostOccurrences:
		homes[of] = own(node)
	case told && known != node:
		homes[of] = ""
	}
}

// of is the node of who said something; "" where nothing tells it.
func (h *homes) of(e event) string {
	if e.rank == "" {
		return h.files[e.file]
	}
	if node, told := h.written[e.rank]; told || h.nested {
		return node
	}
	return h.counted[e.rank]
}

// numbersIn are those of a list such as Slurm writes it, 0-3,7.
func numbersIn(list string) (all []string) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, failed := strconv.Atoi(last)
		if err != nil || failed != nil || to-from >= mostRanks {
			continue
		}
		for ; from <= to && len(all) < mostOccurrences; from++ {
			all = append(all, strconv.Itoa(from))
		}
	}
	return all
}
