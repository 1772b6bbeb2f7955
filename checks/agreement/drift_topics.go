// SPDX-License-Identifier: Apache-2.0

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
	"preflight/internal/text"
)

// topic is a set of facts that one action changes together.
type topic struct {
	name  string // the topic's name in policies and for --accept
	what  string // the subject of the sentence "… changed since the baseline"
	facts *regexp.Regexp
	// undo returns the commands that undo the change on a node, or nil if no command can undo it.
	undo func(topicChange) []fix.Command
}

type topicChange struct {
	view         checks.View
	before, node *facts.Node
	changes      []checks.Change
}

// NodesTopic is the topic of nodes that were added, removed or renamed.
const NodesTopic = "nodes"

// topics lists all topics. A fact belongs to the first topic that matches it. The last topic
// matches every fact.
var topics = []topic{
	{"driver", "the NVIDIA driver", driverFact, undoDriver},
	{"gpus", "the GPUs", regexp.MustCompile(`^(gpu|nvml)\.`), undoGPUs},
	{"python", "the Python environment", regexp.MustCompile(`^python\.`), undoPackages},
	{"mtu", "the MTU", mtuFact, undoMTU},
	{"interfaces", "the network interfaces", regexp.MustCompile(`^net\.interfaces`), undoInterfaces},
	{"network", "the network settings", regexp.MustCompile(`^net\.`), nil},
	{"shm", "/dev/shm", regexp.MustCompile(`^shm\.`), undoSHM},
	{"infiniband", "InfiniBand", regexp.MustCompile(`^ib\.`), nil},
	{"hostname", "the hostname", regexp.MustCompile(`^host\.hostname$`), undoHostname},
	{"system", "the system", regexp.MustCompile(`^host\.`), nil},
	{"limits", "the resource limits", regexp.MustCompile(`^limits\.`), nil},
	{"memory", "the memory", regexp.MustCompile(`^memory\.`), nil},
	{"disks", "the file systems", regexp.MustCompile(`^disk\.`), nil},
	{"environment", "the environment", regexp.MustCompile(`^env\.`), nil},
	{"compilers", "the compilers", regexp.MustCompile(`^toolchain\.`), nil},
	{"ssh", "the ssh login", regexp.MustCompile(`^ssh\.`), nil},
	{"launcher", "the launching machine", regexp.MustCompile(`^launcher\.`), nil},
	{NodesTopic, "the nodes", regexp.MustCompile(`^(name)?$`), nil},
	{"others", "something else", regexp.MustCompile(``), nil},
}

// silent is the topic of the facts that a broken driver no longer reports.
var silent = topic{"driver", "the NVIDIA driver", regexp.MustCompile(`^(gpu|nvml)\.`), func(topicChange) []fix.Command {
	return []fix.Command{fix.Here("preflight checks gpu-driver-loads   # how to repair the driver").As(fix.Look)}
}}

type shared struct {
	facts  *regexp.Regexp
	checks []string
}

// sharing maps changed facts to the checks that may report their cause on the same node. The fix
// comes from the first check in the list that reports the cause.
var sharing = []shared{
	{driverFact, []string{"gpu-driver-loads", "gpu-driver-same", "gpu-driver-runs-cuda", "gpu-fabric"}},
	{regexp.MustCompile(`^gpu\.(doors|modprobe)|^nvml\.(failure|source)`), []string{"gpu-driver-loads"}},
	{regexp.MustCompile(`^gpu\.devices$|^nvml\.cards\.\d+$`), []string{"gpu-driver-loads", "slots-fit", "gpu-count", "gpu-healthy"}},
	{regexp.MustCompile(`^nvml\.cards\.\d+\.(failure|ecc|retired|remapped)\b`), []string{"gpu-driver-loads", "gpu-healthy", "gpu-mode"}},
	{regexp.MustCompile(`^nvml\.cards\.\d+\.(name|memory|capability|vbios)$`), []string{"gpu-driver-loads", "gpu-model-same"}},
	{regexp.MustCompile(`^nvml\.cards\.\d+\.(mig|compute_mode|persistence)`), []string{"gpu-driver-loads", "gpu-mode"}},
	{regexp.MustCompile(`^nvml\.cards\.\d+\.(power|clock|slowdown_at)\b`), []string{"gpu-driver-loads", "gpu-throttle"}},
	{regexp.MustCompile(`^nvml\.cards\.\d+\.(link|nvlinks)\b`), []string{"gpu-driver-loads", "gpu-links"}},
	{regexp.MustCompile(`^nvml\.cards\.\d+\.fabric\b`), []string{"gpu-driver-loads", "gpu-fabric"}},
	{regexp.MustCompile(`^nvml\.(topology|peers)$|^gpu\.(redirecting|iommu)$`), []string{"gpu-driver-loads", "gpu-peer-access", "gpu-links"}},
	{regexp.MustCompile(`^(gpu|nvml)\.`), []string{"gpu-driver-loads"}},
	{regexp.MustCompile(`^python\.(packages\.torch$|torch\b)`), []string{"python-same", "torch-same"}},
	{regexp.MustCompile(`^python\.(packages\.nvidia-nccl|nccl\b)`), []string{"python-same", "nccl-same", "nccl-loaded"}},
	{regexp.MustCompile(`^python\.(packages\.protobuf$|protobuf\b)`), []string{"python-same", "protobuf-works", "protobuf-same"}},
	{regexp.MustCompile(`^python\.(packages\.deepspeed$|deepspeed_ops\b)`), []string{"python-same", "deepspeed-same", "deepspeed-ops"}},
	{regexp.MustCompile(`^python\.packages\.`), []string{"python-same", "packages-same"}},
	{regexp.MustCompile(`^python\.`), []string{"python-same"}},
	{mtuFact, []string{"path-mtu"}},
	{regexp.MustCompile(`^net\.interfaces`), []string{"nic-choice", "node-mesh"}},
	{regexp.MustCompile(`^shm\.(shm|remove_ipc)`), []string{"shm-limits"}},
	{regexp.MustCompile(`^shm\.`), []string{"shm-writable", "shm-size"}},
	{regexp.MustCompile(`^ib\.`), []string{"ib-links", "ib-same"}},
	{regexp.MustCompile(`^host\.hostname$`), []string{"host-names"}},
	{regexp.MustCompile(`^host\.numa\b`), []string{"numa-memory"}},
	{regexp.MustCompile(`^limits\.memlock\b`), []string{"memlock-limit"}},
	{regexp.MustCompile(`^limits\.(nofile|file_max)\b`), []string{"open-files-limit"}},
	{regexp.MustCompile(`^memory\.`), []string{"memory-available"}},
	{regexp.MustCompile(`^disk\.`), []string{"disk-space"}},
	{regexp.MustCompile(`^env\.`), []string{"env-same", "env-sane"}},
	{regexp.MustCompile(`^toolchain\.`), []string{"deepspeed-ops"}},
}

// sharers returns the IDs of all checks in sharing, each once.
func sharers() (ids []string) {
	for _, s := range sharing {
		ids = append(ids, s.checks...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// sharer returns the check that reports the cause of a change on the changed node, or "" for none.
func sharer(view checks.View, c checks.Change) string {
	at := slices.IndexFunc(sharing, func(s shared) bool { return s.facts.MatchString(c.Fact) })
	if at < 0 {
		return ""
	}
	for _, id := range sharing[at].checks {
		if _, finds := view.Reported(id, c.Node); finds {
			return id
		}
	}
	return ""
}

func topicsOf(node *facts.Node) []topic {
	if node.NVML != nil && node.NVML.Failure != nil {
		return append([]topic{silent}, topics...)
	}
	return topics
}

var (
	driverFact = regexp.MustCompile(`^nvml\.(driver|library|cuda)$|^gpu\.(module|open_module|modules|libcuda|fabric_manager)\b`)

	mtuFact = regexp.MustCompile(`^net\.interfaces\.(.+)\.mtu$`)
	nicFact = regexp.MustCompile(`^net\.interfaces\.(.+?)(\.addresses)?$`)
	gpuFact = regexp.MustCompile(`^nvml\.cards\.\d+$`)

	// breaking matches facts that break launches if their value changes: the node then cannot
	// start, or cannot talk to its peers.
	breaking = regexp.MustCompile(`^nvml\.driver$|^gpu\.module$|^python\.(found$|torch\.|nccl\.|protobuf\.)|^python\.packages\.(torch|protobuf|nvidia-nccl-[a-z0-9-]+)$`)
	// failures matches facts that exist only if something is broken.
	failures = regexp.MustCompile(`^nvml\.(cards\.\d+\.)?failure\.`)
	// able matches facts that become false if something is no longer usable.
	able = regexp.MustCompile(`^shm\.(exists|mounted|writable)$`)
)

// breaks reports whether a change breaks launches. Additions to a node do not break launches,
// except for packages that the other nodes lack.
func breaks(node *facts.Node, c checks.Change) bool {
	switch {
	case breaking.MatchString(c.Fact):
		return true
	case mtuFact.MatchString(c.Fact):
		return leadsAway(node, mtuFact.FindStringSubmatch(c.Fact)[1])
	case failures.MatchString(c.Fact):
		return c.Came()
	case able.MatchString(c.Fact):
		return string(c.After) == "false"
	case c.Fact == "gpu.devices":
		return entriesIn(c.After) < entriesIn(c.Before)
	case c.Fact == "shm.size":
		return sizeIn(c.After) < sizeIn(c.Before)
	case gpuFact.MatchString(c.Fact):
		return c.Gone()
	case nicFact.MatchString(c.Fact):
		// The interface disappeared or lost its address.
		part := nicFact.FindStringSubmatch(c.Fact)
		whole := string(c.Before) == present || part[2] != ""
		return c.Gone() && whole && !facts.Interface{Name: part[1]}.ForContainers()
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
	_ = json.Unmarshal(list, &entries) // entries stays nil for an absent list
	return len(entries)
}

func sizeIn(size json.RawMessage) int64 {
	bytes, err := strconv.ParseInt(string(size), 10, 64)
	if err != nil {
		return 0 // the value is absent
	}
	return bytes
}

// finding returns the finding for changes on a node. The gravest change comes first, and a change
// of the machine itself comes before all others. A waiver must cover all of the gravest changes. If
// the finding does not list all changes, the fix has a command that lists them.
func (b baseline) finding(view checks.View, node *facts.Node, changes []checks.Change) checks.Finding {
	worst, rest := compare.Split(changes, isAnotherMachine)
	breaking, mild := compare.Split(rest, func(c checks.Change) bool { return weigh(view, node, c) == checks.Fail })
	worst = append(worst, breaking...)
	changes = append(slices.Clone(worst), mild...)
	f := checks.Finding{Verdict: checks.Warn, Weighed: true, Nodes: []string{node.Name}, Fact: changes[0].Fact, Changes: changes}
	if slices.ContainsFunc(changes, func(c checks.Change) bool { return weigh(view, node, c) == checks.Fail }) {
		f.Verdict = checks.Fail
	}
	if worst == nil {
		worst = changes
	}
	f.Facts = text.Map(worst, func(c checks.Change) string { return c.Fact })
	var got, want []string
	for _, c := range FoldChanges(changes) {
		now, then := InWords(c, plainValue)
		got, want = append(got, c.Fact+" "+now), append(want, c.Fact+" "+then)
	}
	if len(got) > text.MostListed {
		f.Remedy = []fix.Command{fix.Here("preflight diff %s run.json   # lists all changes; -o json=run.json writes run.json", fix.Path(b.File)).As(fix.Look)}
	}
	f.Got, f.Want = text.List(got), text.List(want)
	return f
}

// InWords returns the new and the old value of a change as text. Sizes get a unit that shows the
// difference. For lists, the text holds only the entries that the other list lacks. value formats
// everything else.
func InWords(c checks.Change, value func(fact string, raw json.RawMessage) string) (now, then string) {
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
	return value(c.Fact, c.After), value(c.Fact, c.Before)
}

// unlikeCells returns the cells in which two tables of the same size differ, as in "[3][4] NV16".
// Mirrored cells are listed once. The cells are needed because a table such as the GPU topology is
// too long to compare by eye.
func unlikeCells(c checks.Change) (now, then string, are bool) {
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
	return text.List(nows), text.List(thens), nows != nil
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

// plainValue formats JSON for a reader: text without quotation marks, a list of texts without
// brackets, and an empty text as "absent".
func plainValue(_ string, raw json.RawMessage) string {
	var list []string
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		return strings.Join(list, ", ")
	}
	return cmp.Or(unquoted(string(raw)), absentWord)
}
