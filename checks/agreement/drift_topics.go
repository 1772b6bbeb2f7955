package agreement

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/facts"
)

// topic is facts that change together because of one action.
type topic struct {
	what  string // a plural or a singular that "changed" follows
	facts *regexp.Regexp
	// undo is how that is undone on a node; nil where only a person can tell.
	undo func(topicChange) []fix.Command
	// causes are the checks whose findings may be what changed: then the node is to be
	// repaired, and the baseline stays.
	causes []string
}

type topicChange struct {
	view         checks.View
	before, node *facts.Node
	changes      []Change
}

func (t topic) explained(view checks.View, node *facts.Node) []fix.Command {
	ids := slices.DeleteFunc(slices.Clone(t.causes), func(id string) bool { return !view.Reported(id)[node.Name] })
	if len(ids) == 0 {
		return nil
	}
	return []fix.Command{fix.Note("see %s in this report first: until that is repaired, a new baseline takes the fault for what is good", fix.List[fix.Text](", ", ids))}
}

// topics are tried in this order, and together take every fact: what is left over is
// the last one's.
var topics = []topic{
	{"the NVIDIA driver", regexp.MustCompile(`^nvml\.(driver|library|cuda)$|^gpu\.(module|open_module|modules|libcuda|fabric_manager)\b`), undoDriver,
		[]string{"gpu-driver-loads", "gpu-driver-runs-cuda", "gpu-fabric"}},
	{"the GPUs", regexp.MustCompile(`^(gpu|nvml)\.`), undoGPUs,
		[]string{"gpu-driver-loads", "slots-fit", "gpu-count", "gpu-model-same", "gpu-healthy", "gpu-mode", "gpu-throttle", "gpu-links", "gpu-peer-access", "gpu-fabric"}},
	{"the python environment", regexp.MustCompile(`^python\.`), undoPackages, []string{"python-same", "protobuf-works", "nccl-loaded"}},
	{"the MTU", mtuFact, undoMTU, []string{"path-mtu"}},
	{"the network interfaces", regexp.MustCompile(`^net\.interfaces`), undoInterfaces, []string{"nic-choice", "node-mesh"}},
	{"the network settings", regexp.MustCompile(`^net\.`), nil, nil},
	{"/dev/shm", regexp.MustCompile(`^shm\.`), undoSHM, []string{"shm-size", "shm-writable", "shm-limits"}},
	{"InfiniBand", regexp.MustCompile(`^ib\.`), nil, []string{"ib-links", "ib-same"}},
	{"the system", regexp.MustCompile(`^host\.`), nil, nil},
	{"the resource limits", regexp.MustCompile(`^limits\.`), nil, []string{"memlock-limit", "open-files-limit"}},
	{"the memory", regexp.MustCompile(`^memory\.`), nil, []string{"memory-available"}},
	{"the file systems", regexp.MustCompile(`^disk\.`), nil, []string{"disk-space"}},
	{"the environment", regexp.MustCompile(`^env\.`), nil, []string{"env-sane"}},
	{"the compilers", regexp.MustCompile(`^toolchain\.`), nil, []string{"deepspeed-ops"}},
	{"the way in by ssh", regexp.MustCompile(`^ssh\.`), nil, nil},
	{"something else", regexp.MustCompile(``), nil, nil},
}

// silent is the topic of all that a driver out of order no longer shows.
var silent = topic{"the NVIDIA driver", regexp.MustCompile(`^(gpu|nvml)\.`), func(topicChange) []fix.Command {
	return []fix.Command{fix.Here("preflight checks gpu-driver-loads   # what it takes to get it back")}
}, []string{"gpu-driver-loads"}}

func topicsOf(node *facts.Node) []topic {
	if node.NVML != nil && node.NVML.Failure != nil {
		return append([]topic{silent}, topics...)
	}
	return topics
}

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

func leadsAway(node *facts.Node, name string) bool {
	if name == names.PeerInterface(node) {
		return true
	}
	at := slices.IndexFunc(node.Net.Interfaces, func(i facts.Interface) bool { return i.Name == name })
	return at < 0 || !node.Net.Interfaces[at].Internal()
}

func entriesIn(list json.RawMessage) int {
	var entries []any
	_ = json.Unmarshal(list, &entries) // nil for a list that is not there
	return len(entries)
}

func sizeIn(size json.RawMessage) int64 {
	bytes, err := strconv.ParseInt(string(size), 10, 64)
	if err != nil {
		return 0 // it is not there
	}
	return bytes
}

// finding tells of at least one change on a node, the worst first and with its weight; that
// the machine is another one comes before all. A waiver has to cover all of those that weigh
// most. Where not all are listed the fix says what lists them.
func (b baseline) finding(node *facts.Node, changes []Change) checks.Finding {
	rank := func(c Change) int {
		switch {
		case isAnotherMachine(c):
			return 0
		case breaks(node, c):
			return 1
		}
		return 2
	}
	changes = slices.Clone(changes)
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(rank(a), rank(b)) })
	f := checks.Finding{Verdict: checks.Warn, Nodes: []string{node.Name}, Fact: changes[0].Fact}
	for _, c := range changes {
		if breaks(node, c) {
			f.Verdict = checks.Fail
		}
		if rank(c) < 2 || rank(changes[0]) == 2 {
			f.Facts = append(f.Facts, c.Fact)
		}
	}
	var got, want []string
	for _, c := range FoldChanges(changes) {
		now, then := inWords(c)
		got, want = append(got, c.Fact+" "+now), append(want, c.Fact+" "+then)
	}
	if len(got) > compare.MostListed {
		f.Remedy = []fix.Command{fix.Here("preflight diff %s run.json   # all of it, where run.json is what -o json=run.json writes", fix.Path(b.File))}
	}
	f.Got, f.Want = compare.List(got), compare.List(want)
	return f
}

// inWords is a change's value now and before: sizes in the unit that tells them apart, of
// lists what the other one lacks.
func inWords(c Change) (now, then string) {
	var is, was []string
	if json.Unmarshal(c.After, &is) == nil && json.Unmarshal(c.Before, &was) == nil && len(is)*len(was) > 0 {
		return beyond(is, was), beyond(was, is)
	}
	if now, then, are := unlikeCells(c); are {
		return now, then
	}
	after, errAfter := strconv.ParseInt(string(c.After), 10, 64)
	before, errBefore := strconv.ParseInt(string(c.Before), 10, 64)
	if facts.Unit(c.Fact) == "bytes" && errAfter == nil && errBefore == nil && after >= 0 && before >= 0 {
		return compare.Apart(after, before)
	}
	return plainValue(c.After), plainValue(c.Before)
}

// unlikeCells is of two tables of one size, as what joins any two GPUs, those cells that
// are not the same, "[3][4] NV16", and once what is so both ways: a table is too long to be
// compared by eye.
func unlikeCells(c Change) (now, then string, are bool) {
	var is, was [][]string
	if json.Unmarshal(c.After, &is) != nil || json.Unmarshal(c.Before, &was) != nil || len(is) != len(was) {
		return "", "", false
	}
	var nows, thens []string
	for i := range is {
		if len(is[i]) != len(was[i]) {
			return "", "", false
		}
		for j := range is[i] {
			mirrored := j < i && i < len(is[j]) && is[j][i] == is[i][j] && was[j][i] == was[i][j]
			if is[i][j] != was[i][j] && !mirrored {
				at := fmt.Sprintf("[%d][%d] ", i, j)
				nows, thens = append(nows, at+is[i][j]), append(thens, at+was[i][j])
			}
		}
	}
	return compare.List(nows), compare.List(thens), nows != nil
}

func beyond(list, other []string) string {
	extra := slices.DeleteFunc(slices.Clone(list), func(entry string) bool { return slices.Contains(other, entry) })
	switch {
	case len(extra) > 0:
		return "with " + strings.Join(extra, ", ")
	case len(list) < len(other):
		return "without it"
	}
	return "in the order " + strings.Join(list, ", ")
}

// plainValue is JSON as a person reads it: text without its quotation marks, a list of
// texts without its brackets, and an empty text for what it is.
func plainValue(raw json.RawMessage) string {
	var list []string
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		return strings.Join(list, ", ")
	}
	return cmp.Or(unquoted(string(raw)), absentWord)
}
