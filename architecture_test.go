// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// room is what one package may import, and why: the reason is for whoever is stopped.
type room struct {
	path  string   // below the module, "." for its root
	ours  []string // what of ours: a package, or with /... a room and all below it
	never []string // what of others' it must not
	why   string
}

// What several rooms must not import.
var (
	acts  = []string{"os", "os/exec", "net"}
	clock = append([]string{"time"}, acts...)
)

// Of ours, what checks of every family stand on.
var judging = []string{
	"checks", "checks/compare", "checks/fix", "checks/names", "checks/proof", "checks/ranks", "checks/remedy",
	"facts", "hostfile", "launch", "launch/dsconfig", "launch/nccl",
}

// Of ours, what a finished report is made of.
var finished = []string{
	"checks", "checks/agreement", "checks/catalogue", "checks/compare", "checks/fix", "checks/hang", "checks/store",
	"explain", "facts", "facts/bounded", "hostfile", "launch", "launch/dsconfig", "launch/nccl", "secret",
}

const (
	pure   = "checks are pure: no clock, no I/O, the same fleet gives the same report; families know nothing of each other"
	leaf   = "a leaf: every family stands on it, so it stands on none"
	byRule = "launch predicts by rule alone, so that every rule is a table test"
	looks  = "a probe observes: a check or a connection in it would be judging or calling home; one part of a machine needs no other"
	draws  = "rendering a finished report must not be able to change it"
	tries  = "a drill tries and reports; judging is for checks"
)

// rooms has a row for every package of ours.
var rooms = []room{
	{"hostfile", nil, nil, "the grammar stands alone: it is what everything else starts from"},
	{"facts", nil, acts, "facts are a vocabulary: whoever speaks it must not drag a room along"},
	{"secret", []string{"lazyregexp"}, acts, "what is a secret is one for everybody, whoever collects, keeps or shows it"},
	{"pickle", nil, acts, "a file of somebody else's program is read and nothing of it is made or called"},
	{"lazyregexp", nil, nil, "what every node starts compiles only what it uses"},
	{"hostsys", []string{"hostsys/limits"}, nil, "a machine is a machine to whoever runs on it: what it is asked for is not known here"},
	{"hostsys/limits", nil, []string{"os/exec"}, "what a machine has too little of is the same for whoever meets it, and what starts nothing asks too"},

	{"launch", []string{"facts", "hostfile", "launch/dsconfig", "secret"}, acts, byRule},
	{"launch/args", []string{"hostfile", "launch"}, acts, byRule},
	{"launch/dsconfig", []string{"hostfile"}, acts, byRule},
	{"launch/nccl", []string{"facts", "hostfile", "launch"}, acts, byRule},

	{"facts/bounded", nil, acts, "it counts values and knows none"},
	{"remote", []string{"facts/bounded", "hostfile", "hostsys", "hostsys/limits", "lazyregexp", "secret"}, nil, "remote reaches nodes and knows nothing of what is looked at there"},
	{"remote/ssh", []string{"hostfile", "hostsys", "remote"}, nil, "a carrier: it reaches a node, and what is said over it is not its business"},
	{"remote/kubectl", []string{"hostfile", "hostsys", "lazyregexp", "remote", "remote/broadcast"}, nil, "a carrier, as remote/ssh"},
	{"remote/meet", []string{"hostfile", "remote"}, nil, "a carrier, as remote/ssh, and the other end of it"},
	{"remote/broadcast", []string{"hostsys", "remote"}, nil, "what carriers of one program for many nodes share: it knows no engine by name"},
	{"remote/mpirun", []string{"hostfile", "hostsys", "remote", "remote/broadcast"}, nil, "a carrier, as remote/ssh"},
	{"remote/srun", []string{"hostfile", "hostsys", "remote", "remote/broadcast"}, nil, "a carrier, as remote/ssh"},

	{"probe", []string{"facts", "hostsys", "probe/gpu", "probe/host", "probe/launch", "probe/machine", "probe/network", "probe/python"}, nil, looks},
	{"probe/machine", []string{"facts", "hostsys", "lazyregexp"}, nil, looks},
	{"probe/host", []string{"facts", "hostsys", "lazyregexp", "probe/machine", "probe/startlimit"}, nil, looks},
	{"probe/network", []string{"facts", "hostsys", "lazyregexp", "probe/machine"}, nil, looks},
	{"probe/gpu", []string{"facts", "hostsys", "lazyregexp", "probe/machine", "probe/nvml"}, nil, looks},
	{"probe/python", []string{"facts", "hostsys", "lazyregexp", "probe/machine"}, nil, looks},
	{"probe/launch", []string{"facts", "hostsys", "hostsys/limits", "lazyregexp", "probe/machine", "secret"}, nil, looks},
	{"probe/jobs", []string{"facts", "hostsys", "probe/machine"}, []string{"os/exec"}, "what runs is looked at and never called: it opens /proc, cgroups and locks, and nothing else"},
	{"probe/nvml", []string{"facts"}, nil, "it runs in a process of its own, which a driver may hang or kill"},
	{"probe/startlimit", nil, nil, "it runs before anything else of the program, and must cost it nothing"},

	{"drill", []string{"drill/c10d", "drill/outcome", "facts", "hostsys"}, nil, tries},
	{"drill/c10d", []string{"facts", "pickle"}, nil, tries},
	{"drill/mesh", []string{"drill/outcome", "facts", "hostsys"}, nil, tries},
	{"drill/smoke", []string{"facts", "hostsys"}, nil, tries},
	{"drill/smoke/direct", []string{"drill/smoke", "facts", "hostsys"}, nil, "it runs in a process of its own, which a library may hang or kill"},
	{"drill/outcome", []string{"facts", "hostsys"}, nil, tries},

	{"fleet", []string{"drill/...", "facts", "fleet/agent", "hostfile", "hostsys", "launch", "launch/nccl", "probe", "remote", "secret"}, nil,
		"a run gathers: what it is judged by, and how it is shown, must not decide what is looked at"},
	{"fleet/agent", []string{"drill/...", "facts", "probe", "probe/jobs", "probe/nvml", "remote"}, nil, "it runs on nodes, which need nothing of launches, judging and rendering"},

	{"checks", []string{"checks/fix", "facts", "hostfile", "launch", "launch/nccl"}, clock, "the types of judging, which every family and whoever shows its outcome shares"},
	{"checks/compare", []string{"checks", "facts", "hostfile"}, clock, leaf},
	{"checks/fix", []string{"hostfile"}, clock, "commands are values that quote themselves, whatever they repair"},
	{"checks/names", []string{"checks", "checks/compare", "checks/fix", "checks/ranks", "facts", "hostfile", "launch", "launch/nccl"}, clock, leaf},
	{"checks/proof", []string{"facts", "hostfile"}, clock, leaf},
	{"checks/ranks", []string{"checks", "checks/compare", "checks/fix", "facts", "launch", "launch/nccl"}, clock, leaf},
	{"checks/remedy", []string{"checks", "checks/compare", "checks/fix", "checks/ranks", "facts", "hostfile", "launch"}, clock, leaf},
	{"checks/ssh", judging, clock, pure},
	{"checks/host", judging, clock, pure},
	{"checks/software", judging, clock, pure},
	{"checks/launcher", judging, clock, pure},
	{"checks/gpu", judging, clock, pure},
	{"checks/network", judging, clock, pure},
	{"checks/fabric", judging, clock, pure},
	{"checks/smoke", judging, clock, pure},
	{"checks/knownbad", []string{"checks", "checks/compare", "checks/fix", "checks/ranks", "facts", "launch", "launch/nccl"}, clock,
		"what is known to fail is a table, held against facts: whoever adds an entry writes no code"},
	{"checks/store", append([]string{"checks/engine", "checks/hang"}, judging...), clock, "what stands at an endpoint is judged without a launch: no check of the catalogue runs"},
	{"checks/hang", append([]string{"checks/engine"}, judging...), clock, "a job that hangs is judged by what runs, without a launch: no check of the catalogue runs"},
	{"checks/agreement", []string{"checks", "checks/compare", "checks/fix", "checks/names", "checks/remedy", "facts", "hostfile", "launch"}, clock,
		"what a team has stated or recorded is held against facts, whatever a family makes of them"},
	{"checks/advice", judging, clock, "advice is what this run has proven: it asks the proof, not a family"},
	{"checks/engine", []string{"checks", "checks/advice", "checks/agreement", "checks/compare", "checks/fix", "checks/ranks", "facts", "hostfile", "launch"}, clock,
		"the engine runs whatever checks it is handed, and knows none by name"},
	{"checks/catalogue", []string{"checks", "checks/agreement", "checks/fabric", "checks/gpu", "checks/host", "checks/knownbad", "checks/launcher", "checks/network", "checks/smoke", "checks/software", "checks/ssh", "checks/engine"},
		clock, "a list: whoever needs one check needs no other"},

	{"explain/flight", []string{"facts", "pickle"}, clock, "what ranks recorded is compared; what it means for a launch is not known here"},
	{"explain", []string{"checks", "checks/catalogue", "explain/flight", "secret"}, acts, "a log is read as it is handed over; nothing is opened, reached or run"},

	{"report", finished, acts, draws},
	{"report/ci", append([]string{"report"}, finished...), acts, draws},
	{"report/html", append([]string{"report"}, finished...), acts, draws},
	{"report/formats", []string{"checks", "report", "report/ci", "report/html"}, acts, draws},

	{".", []string{"checks/...", "facts", "fleet/...", "hostfile", "hostsys", "launch/...", "probe", "remote/...", "secret"}, nil,
		"the story of a run: flags and rendering are whoever's who tells it"},

	{"cmd/preflight/internal/usage", []string{"checks/compare", "checks/fix"}, nil, "what is wrong with a command line, in words"},
	{"cmd/preflight/internal/inside", []string{"cmd/preflight/internal/usage", "hostfile", "remote"}, nil, "a command line is read here, and run elsewhere"},
	{"cmd/preflight/internal/policyfile", []string{"checks/...", "cmd/preflight/internal/inside", "cmd/preflight/internal/usage", "hostfile"}, nil, "a policy is read here and nowhere else"},
	{"cmd/preflight/internal/agents", []string{"remote"}, nil, "what nodes are sent lies here, and is made elsewhere"},
	{"cmd/preflight/internal/outputs", []string{"cmd/preflight/internal/usage", "report/..."}, nil, "where reports go, whatever they say"},
	{"cmd/preflight/internal/closed", nil, []string{"os/exec", "net"}, "it asks one thing, before anything else runs"},
	{"cmd/preflight/internal/edit", nil, acts, "a text of JSON is edited whatever it says"},
	{"cmd/preflight/internal/baseline", []string{"checks", "checks/agreement", "cmd/preflight/internal/edit", "facts", "report"}, acts, "what a baseline takes is text in and text out"},
	{"cmd/preflight/internal/progress", []string{".", "fleet", "hostfile", "remote", "report", "secret"}, nil, "what is shown while a run is under way, which it must not change"},

	{"testhosts/...", []string{"hostfile", "testhosts/..."}, nil, "a stand-in that uses our own code would agree with its mistakes"},

	{"portable", nil, nil, "it is linked into what must start on any glibc"},
	{"examples", nil, nil, "tests alone: examples are used as their readers use them, from outside"},
	{"packaging", nil, nil, "tests alone: packages are looked at from outside"},
	{"oracle", nil, nil, "tests alone: the real thing says whether we are right"},
}

// launching are what only the launching machine has a use for: every node is sent, verifies
// and starts whatever else is linked into an agent.
var launching = []string{
	"preflight", "preflight/checks/...", "preflight/explain", "preflight/fleet", "preflight/hostfile/...", "preflight/launch/...",
	"preflight/remote/broadcast", "preflight/remote/kubectl", "preflight/remote/meet", "preflight/remote/mpirun", "preflight/remote/ssh", "preflight/remote/srun", "preflight/report/...", "preflight/cmd/...",
	"crypto/tls", "golang.org/x/crypto/...", "html/...", "net/http/...", "testing/...", "text/template/...",
	"github.com/hashicorp/go-multierror", "github.com/spf13/...", "go.yaml.in/...", "gopkg.in/...",
}

// programs may wire whatever they need, but what is listed with them.
var programs = map[string][]string{
	"cmd/preflight":     nil,
	"cmd/agent":         launching,
	"cmd/agent/pack":    nil,
	"docs/picture":      nil,
	"explain/score":     {"os/exec"},
	"portable/floor":    {"os/exec"},
	"packaging/sbom":    {"os/exec"},
	"packaging/wheel":   {"os/exec"},
	"testhosts/bench":   nil,
	"testhosts/cluster": nil,
}

// forTests are what only tests import.
var forTests = []string{"launch/launchtest", "probe/fixture", "remote/carriertest", "remote/fixture", "checks/fleettest", "checks/fix/sandbox", "report/internal/sample", "secret/secrettest"}

// onlyIn are what one room does for all: importing it elsewhere would be doing it twice.
var onlyIn = []struct {
	imported string
	by       []string
	why      string
}{
	{"preflight/testhosts/...", []string{"cmd/preflight", "testhosts/..."}, "testhosts is for tests, the demo and benchmarks only"},
	{"github.com/spf13/viper", []string{"cmd/preflight/..."}, "configuration is read in one place"},
	{"github.com/spf13/cobra", []string{"cmd/preflight/..."}, "flags are the command line's"},
	{"github.com/NVIDIA/go-nvml/...", []string{"probe/nvml"}, "a driver is asked in a process that may hang and die of it"},
	{"golang.org/x/crypto/ssh/...", []string{"remote/...", "testhosts/..."}, "ssh is one carrier of several"},
}

func TestImportRules(t *testing.T) {
	met := map[string]bool{}
	for _, pkg := range packages(t) {
		where := "."
		if pkg.ImportPath != "preflight" {
			where = strings.TrimPrefix(pkg.ImportPath, "preflight/")
		}
		for _, rule := range onlyIn {
			if at := slices.IndexFunc(pkg.Imports, matches(rule.imported)); at >= 0 && !slices.ContainsFunc(rule.by, covers(where)) {
				t.Errorf("%s imports %s: %s", where, pkg.Imports[at], rule.why)
			}
		}
		if slices.Contains(forTests, where) {
			met[where] = true
			continue
		}
		for _, imported := range pkg.Imports {
			if slices.Contains(forTests, strings.TrimPrefix(imported, "preflight/")) {
				t.Errorf("%s imports %s, which is for tests", where, imported)
			}
		}
		if never, program := programs[where]; program {
			met[where] = true
			for _, dep := range pkg.Deps {
				if slices.ContainsFunc(never, covers(dep)) {
					t.Errorf("%s is linked with %s, which it has no use for", where, dep)
				}
			}
			continue
		}
		at := slices.IndexFunc(rooms, func(r room) bool { return covers(where)(r.path) })
		if at < 0 {
			t.Errorf("%s has no row: say what it may import, and why", where)
			continue
		}
		met[rooms[at].path] = true
		for _, imported := range pkg.Imports {
			if rooms[at].forbids(imported) {
				t.Errorf("%s imports %s: %s", where, imported, rooms[at].why)
			}
		}
	}
	for _, r := range rooms {
		if !met[r.path] {
			t.Errorf("there is no package %s", r.path)
		}
	}
	for _, where := range forTests {
		if !met[where] {
			t.Errorf("there is no package %s for tests", where)
		}
	}
	for where := range programs {
		if !met[where] {
			t.Errorf("there is no program %s", where)
		}
	}
}

// forbids is whether a room must not import that.
func (r room) forbids(imported string) bool {
	if slices.Contains(r.never, imported) {
		return true
	}
	below, ours := strings.CutPrefix(imported, "preflight/")
	if imported == "preflight" {
		below, ours = ".", true
	}
	return ours && !slices.ContainsFunc(r.ours, covers(below))
}

// matches is whether a path is the pattern, or with /... behind it below it.
func matches(pattern string) func(path string) bool {
	return func(path string) bool { return covers(path)(pattern) }
}

// covers is the same from the other side.
func covers(where string) func(pattern string) bool {
	return func(pattern string) bool {
		above, all := strings.CutSuffix(pattern, "/...")
		return where == above || all && strings.HasPrefix(where, above+"/")
	}
}

// TestCovers: a rule that matched nothing would forbid nothing.
func TestCovers(t *testing.T) {
	for where, pattern := range map[string]string{"drill": "drill/...", "drill/c10d": "drill/...", "checks/fix": "checks/fix"} {
		if !covers(where)(pattern) {
			t.Errorf("%s is not covered by %s", where, pattern)
		}
	}
	for where, pattern := range map[string]string{"drilling": "drill/...", "drill/c10d": "drill", "a/b": "b"} {
		if covers(where)(pattern) {
			t.Errorf("%s is covered by %s", where, pattern)
		}
	}
}

type goPackage struct {
	ImportPath, Name string
	Imports          []string // of the package itself, without its tests
	Deps             []string // and of what these import
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Name,Imports,Deps", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var pkg goPackage
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, pkg)
	}
}
