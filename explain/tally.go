// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// tally stores, for each message, who logged it first and how often it occurred. Logs of any length
// therefore take the same memory.
type tally struct {
	sources     []string
	many        bool // there are several logs, so their names identify nodes
	lines       int  // number of lines of all sources
	position    int  // number of the current line, over all sources
	unread      []Unread
	empty       []string // sources without a line
	nameless    int      // messages that were counted without their speaker
	occurrences []*occurrence
	byKey       map[key]*occurrence
	bySignature map[string][]*occurrence        // occurrences by signature ID
	values      map[*Signature]map[string]event // the first event with each value, for values that must be the same everywhere
	valued      map[key]bool                    // speakers that have already logged such a value
	progress    map[int]*progress               // signs of progress, by source
	network     networks
	homes       homes
	meetings    []meeting // collectives, in the order in which ranks gave up
	calls       map[callKey]call
	launchers   map[string]bool // launchers of the table that raised an exception, or that a message is from
	groups      bool            // a rank named a group of ranks other than the default one
	highest     int             // highest rank in the logs
}

type occurrence struct {
	event // the earliest event
	count int
	last  int // position of the latest event
}

type key struct {
	signature *Signature
	exception string
	file      int
	speaker
}

const (
	// mostOccurrences bounds the memory that a hostile log can use.
	mostOccurrences = 20_000
	mostValues      = 64
	mostRanks       = 1 << 20
)

func newTally(sources int) *tally {
	return &tally{
		many: sources > 1, byKey: map[key]*occurrence{}, bySignature: map[string][]*occurrence{},
		values: map[*Signature]map[string]event{}, valued: map[key]bool{}, progress: map[int]*progress{}, calls: map[callKey]call{}, homes: newHomes(), network: newNetworks(), launchers: map[string]bool{},
	}
}

// add records a message and returns its occurrence for this speaker.
func (t *tally) add(e event) *occurrence {
	derive(e.values)
	if s := e.signature; s != nil && s.Differs != "" {
		t.value(e)
	}
	if e.signature != nil && e.signature.Apart != nil {
		t.meets(e)
	}
	if group := e.values["group"]; group != "" && group != "0" {
		t.groups = true
	}
	if rank, err := strconv.Atoi(e.rank); err == nil && rank < mostRanks {
		t.highest = max(t.highest, rank)
	}
	if e.signature != nil && e.signature.Kind == Success {
		if t.progress[e.file] == nil {
			t.progress[e.file] = &progress{}
		}
		t.progress[e.file].add(e.position)
	}
	k := key{e.signature, e.exception, e.file, e.speaker}
	known := t.byKey[k]
	if known == nil && len(t.occurrences) >= mostOccurrences {
		k.speaker, k.exception = speaker{}, ""
		known = t.byKey[k]
		t.nameless++
	}
	if known == nil {
		e = e.kept()
		if k.speaker != (speaker{}) || k.exception != "" {
			k.speaker, k.exception = e.speaker, e.exception
		}
		known = &occurrence{event: e}
		t.byKey[k] = known
		t.occurrences = append(t.occurrences, known)
		if e.signature != nil {
			t.bySignature[e.signature.ID] = append(t.bySignature[e.signature.ID], known)
		}
	}
	known.count++
	known.last = e.position
	if e.at.Known() && known.at.Known() && e.at.Earlier(known.at) {
		known.event = e.kept()
	}
	return known
}

// kept returns a copy of the event that does not keep the line in memory. Without the copy, a
// single word would keep a whole long line in memory.
func (e event) kept() event {
	e.text, e.exception = own(e.text), own(e.exception)
	e.speaker = speaker{node: own(e.node), rank: own(e.rank), local: own(e.local)}
	values := make(map[string]string, len(e.values))
	for name, value := range e.values {
		values[name] = own(value)
	}
	e.values = values
	return e
}

func own(text string) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), widest)], ""))
}

// value records a value that must be the same for all speakers. Only a speaker's first value
// counts, because a log may contain several runs.
func (t *tally) value(e event) {
	s := e.signature
	who := key{s, "", e.file, e.speaker}
	if t.valued[who] || len(t.valued) >= mostOccurrences {
		return
	}
	e = e.kept()
	who.speaker = e.speaker
	t.valued[who] = true
	if t.values[s] == nil {
		t.values[s] = map[string]event{}
	}
	if _, known := t.values[s][e.values[s.Differs]]; !known && len(t.values[s]) < mostValues {
		t.values[s][e.values[s.Differs]] = e
	}
}

func (t *tally) has(ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return len(t.bySignature[id]) > 0 })
}

// everywhere reports whether a message concerns the whole job: rank 0 or a node with one of the
// messages "first" logged it, or each of several logs has it.
func (t *tally) everywhere(s *Signature, first []string) bool {
	files := map[int]bool{}
	for _, h := range t.bySignature[s.ID] {
		for _, id := range first {
			if h.rank == "0" || h.node != "" && slices.ContainsFunc(t.bySignature[id], func(o *occurrence) bool { return o.node == h.node }) {
				return true
			}
		}
		files[h.file] = true
	}
	return t.many && len(files) == len(t.sources)
}

// lasting is the number of signs of progress that show that the whole program continues. Fewer
// signs may come from another rank that continues only for a moment.
const lasting = 20

// progress holds the positions of the last signs of success in a log.
type progress struct {
	last [lasting]int // positions, as a ring buffer
	n    int
}

func (p *progress) add(position int) {
	p.last[p.n%lasting] = position
	p.n++
}

// after reports whether there was any progress after a position.
func (p *progress) after(position int) bool {
	return p != nil && p.n > 0 && p.last[(p.n-1)%lasting] > position
}

// lastedAfter reports whether at least "lasting" signs of progress came after a position.
func (p *progress) lastedAfter(position int) bool {
	return p != nil && p.n >= lasting && p.last[p.n%lasting] > position
}

// homes maps ranks to nodes. It learns the nodes from messages of any kind. The failure message of
// a rank often names only the rank's number, and the launcher's table later names the node.
type homes struct {
	written map[string]string // nodes by rank, from the rank's own lines and from tables about the rank; "" if these contradict each other
	counted map[string]string // nodes by the numbers that mpirun and srun give to the processes that they start
	files   map[int]string    // nodes by source, for logs that are from one node
	// nested means that mpirun or srun started launchers, so the ranks of these launchers have
	// other numbers.
	nested bool
}

func newHomes() homes {
	return homes{written: map[string]string{}, counted: map[string]string{}, files: map[int]string{}}
}

// learn records the node of a rank if a message shows it. The speaker of e must come only from e's
// own line.
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

// put records the node of a rank. If a rank already has another node, put records "".
func put[K comparable](homes map[K]string, of K, node string) {
	known, told := homes[of]
	switch {
	case !told && len(homes) < mostOccurrences:
		homes[of] = own(node)
	case told && known != node:
		homes[of] = ""
	}
}

// of returns the node of an event's speaker, or "" if the node is unknown.
func (h *homes) of(e event) string {
	if e.rank == "" {
		return h.files[e.file]
	}
	if node, told := h.written[e.rank]; told || h.nested {
		return node
	}
	return h.counted[e.rank]
}

// numbersIn returns the numbers in a list in Slurm's form, such as 0-3,7.
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

// meeting is one collective. The ranks of a group number their calls in the same way, so calls with
// the same number should be the same call.
type meeting struct {
	group  string // group of ranks, as the message names it
	number string
}

// call describes the collective call that a rank was waiting in when it gave up.
type call struct {
	rank         int
	op, elements string
}

// mostCalls bounds the memory that a hostile log can use.
const mostCalls = 100_000

// uneven lists operations in which ranks may contribute different amounts, and operations that are
// the two ends of one transfer (torch csrc/distributed/c10d/Work.hpp, OpType).
var uneven = []string{"ALLTOALL", "ALLTOALL_BASE", "GATHER", "SCATTER", "SEND", "RECV", "RECVANYSOURCE", "COALESCED"}

// meets records which rank was in which call.
func (t *tally) meets(e event) {
	rank, err := strconv.Atoi(e.rank)
	if err != nil || e.values["seq"] == "" || len(t.calls) >= mostCalls {
		return
	}
	m := meeting{e.values["group"], e.values["seq"]}
	if !slices.Contains(t.meetings, m) && len(t.meetings) < mostValues {
		t.meetings = append(t.meetings, m)
	}
	t.calls[callKey{m, rank}] = call{rank, e.values["op"], e.values["elements"]}
}

type callKey struct {
	meeting
	rank int
}

// at returns the calls of one collective, sorted by rank.
func (t *tally) at(m meeting) []call {
	var calls []call
	for key, c := range t.calls {
		if key.meeting == m {
			calls = append(calls, c)
		}
	}
	slices.SortFunc(calls, func(a, b call) int { return a.rank - b.rank })
	return calls
}

// apart returns a call number and a text about two ranks that were in different calls with this
// number. It returns "" if there are no such ranks. Each group numbers its own calls. If the
// messages do not name the group and the log has several groups, the calls cannot be compared.
func (t *tally) apart() (number, calls string) {
	for _, m := range t.meetings {
		if m.group == "" && t.groups {
			continue
		}
		all := t.at(m)
		for _, c := range all {
			first := all[0]
			if c.op != first.op && !slices.Contains(uneven, c.op) && !slices.Contains(uneven, first.op) ||
				c.op == first.op && c.elements != first.elements && !slices.Contains(uneven, c.op) {
				return m.number, fmt.Sprintf("%s and %s", first, c)
			}
		}
	}
	return "", ""
}

func (c call) String() string {
	return fmt.Sprintf("rank %d was in %s (NumelIn %s)", c.rank, cmp.Or(c.op, "a call"), cmp.Or(c.elements, "unknown"))
}

// missing returns the ranks, up to the highest known rank, that did not give up in the call in
// which most other ranks gave up. These ranks never arrived at the call. If the messages do not name
// the call, as gloo's do not, it returns the ranks without a failure. missing returns "" if too few
// ranks are known, as in the log of one node.
func (t *tally) missing(verdicts []verdict) string {
	present := map[int]bool{}
	if len(t.meetings) > 0 {
		for _, c := range t.at(t.meetings[0]) {
			present[c.rank] = true
		}
	} else {
		for _, v := range verdicts {
			if rank, err := strconv.Atoi(v.rank); err == nil && v.failed() {
				present[rank] = true
			}
		}
	}
	if t.groups && (len(t.meetings) == 0 || t.meetings[0].group == "") {
		return ""
	}
	highest := t.highest
	for rank := range present {
		highest = max(highest, rank)
	}
	var missing []string
	for rank := 0; rank <= highest && len(missing) <= len(present); rank++ {
		if !present[rank] {
			missing = append(missing, strconv.Itoa(rank))
		}
	}
	if len(missing) == 0 || 2*len(missing) > len(present) {
		return ""
	}
	return "rank " + strings.Join(missing, ", ")
}
