// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rule limits the size and the imports of one package.
type rule struct {
	path string // below the module, "." for its root; with /... it covers all packages below it together
	// lines is the maximum number of lines in its Go files, without tests. A change that needs more
	// raises the number in the same commit and gives the reason there.
	lines int
	ours  []string // packages of this module that it may import: a path, or with /... that package and all below it
	never []string // other packages that it must not import
	why   string   // shown when the test refuses an import
}

// Imports that several rules forbid.
var (
	acts  = []string{"os", "os/exec", "net"}
	clock = append([]string{"time"}, acts...)
)

// everywhere are the packages that every other one may import.
var everywhere = []string{"internal/lazyregexp", "internal/text"}

// judging are the packages of this module that the checks of every family may import.
var judging = []string{
	"checks", "checks/compare", "checks/fix", "checks/names", "checks/proof", "checks/ranks", "checks/remedy",
	"facts", "hostfile", "launch", "launch/dsconfig", "launch/nccl",
}

// finished are the packages of this module that describe a finished report.
var finished = []string{
	"checks", "checks/agreement", "checks/catalogue", "checks/compare", "checks/fix", "diagnose/hang", "diagnose/rendezvous",
	"explain", "facts", "hostfile", "launch", "launch/dsconfig", "launch/nccl", "internal/secret",
}

const (
	pure   = "checks are pure: no clock and no I/O, so the same fleet gives the same report; check families do not import each other"
	leaf   = "every check family imports it, so it must not import any of them"
	byRule = "launch predicts from its arguments only, so that every rule can be tested with a table"
	looks  = "a probe only reads facts: it must not run checks or open connections, and probes do not depend on each other"
	draws  = "rendering a finished report must not be able to change it"
	tries  = "a drill tries something and reports the result; checks evaluate it"
)

// rules has a row for every package except programs and packages that only tests import.
var rules = []rule{
	{"hostfile", 1721, nil, nil, "everything else builds on the hostfile grammar, so it imports nothing"},
	{"facts", 3313, nil, acts, "facts are only types: a package that uses them must not link collectors or checks"},
	{"internal/secret", 942, nil, acts, "one package defines what a secret is, for all that collect, store or show text"},
	{"internal/text", 220, nil, acts, "all packages that print text share these helpers"},
	{"internal/literal", 560, nil, clock, "it looks at regular expressions and their literal text alone"},
	{"internal/logtext", 330, nil, acts, "it reads files of any kind as text, and does not know what a log means"},
	{"internal/lazyregexp", 65, nil, nil, "the agent starts on every node and must compile only the regular expressions that it uses"},
	{"internal/hostsys", 1485, nil, nil, "it reads the machine and starts programs for any purpose"},

	{"launch", 4788, []string{"facts", "hostfile", "launch/dsconfig", "internal/secret"}, acts, byRule},
	{"launch/args", 2747, []string{"hostfile", "launch"}, acts, byRule},
	{"launch/dsconfig", 1388, []string{"hostfile"}, acts, byRule},
	{"launch/nccl", 2249, []string{"facts", "hostfile", "launch"}, acts, byRule},

	{"remote", 3285, []string{"hostfile", "internal/hostsys", "internal/secret"}, nil, "remote starts agents on nodes and does not know what they do there"},
	{"remote/ssh", 3726, []string{"hostfile", "internal/hostsys", "remote"}, nil, "it reaches a node and does not know what is sent over the connection"},
	{"remote/kubectl", 642, []string{"hostfile", "internal/hostsys", "remote", "remote/engine"}, nil, "like remote/ssh"},
	{"remote/meet", 731, []string{"remote"}, nil, "like remote/ssh, plus the node's end of the connection, which agents link too"},
	{"remote/engine", 394, []string{"internal/hostsys", "remote"}, nil, "it is shared by carriers that start one program per node, and knows none of these programs"},
	{"remote/mpirun", 283, []string{"hostfile", "internal/hostsys", "remote", "remote/engine"}, nil, "like remote/ssh"},
	{"remote/srun", 879, []string{"hostfile", "internal/hostsys", "remote", "remote/engine", "remote/meet"}, nil, "like remote/ssh"},

	{"probe", 208, []string{"facts", "internal/hostsys", "probe/gpu", "probe/host", "probe/launch", "probe/machine", "probe/network", "probe/python"}, nil, looks},
	{"probe/machine", 1271, []string{"facts", "internal/hostsys"}, nil, looks},
	{"probe/host", 1560, []string{"facts", "internal/hostsys", "probe/machine", "probe/startlimit"}, nil, looks},
	{"probe/network", 1347, []string{"facts", "internal/hostsys", "probe/machine"}, nil, looks},
	{"probe/gpu", 1592, []string{"facts", "internal/hostsys", "probe/machine", "probe/nvml"}, nil, looks},
	{"probe/python", 2055, []string{"facts", "internal/hostsys", "probe/machine"}, nil, looks},
	{"probe/launch", 2429, []string{"facts", "internal/hostsys", "probe/machine", "internal/secret"}, nil, looks},
	{"diagnose/jobs", 1350, []string{"facts", "internal/hostsys", "probe/machine"}, []string{"os/exec"}, "it reads /proc, cgroups and locks, and starts or contacts no process"},
	{"probe/nvml", 1237, []string{"facts"}, nil, "it runs in a process of its own, which the driver may hang or kill"},
	{"probe/startlimit", 42, nil, nil, "it runs before everything else in the program and must cost nothing"},

	{"drill", 1707, []string{"drill/c10d", "drill/outcome", "facts", "internal/hostsys"}, nil, tries},
	{"drill/c10d", 1238, []string{"facts"}, nil, tries},
	{"drill/mesh", 1689, []string{"drill/outcome", "facts", "internal/hostsys"}, nil, tries},
	{"drill/smoke", 1213, []string{"facts", "internal/hostsys"}, nil, tries},
	{"drill/shared", 398, []string{"facts"}, nil, tries},
	{"drill/rehearse", 602, []string{"drill/smoke", "facts", "internal/hostsys"}, nil, tries},
	{"drill/smoke/direct", 929, []string{"drill/smoke", "facts", "internal/hostsys"}, nil, "it runs in a process of its own, which the library may hang or kill"},
	{"drill/outcome", 156, []string{"facts", "internal/hostsys"}, nil, tries},

	{"fleet", 4000, []string{"drill/...", "facts", "agent", "hostfile", "internal/hostsys", "launch", "launch/nccl", "probe", "remote", "internal/secret"}, nil,
		"a run gathers facts: the checks and the report must not decide which facts"},
	{"agent", 406, []string{"drill/...", "facts", "internal/hostsys", "probe", "diagnose/jobs", "probe/nvml", "remote", "remote/meet"}, nil, "it runs on nodes, which need no code for launches, checks and reports"},

	{"checks", 805, []string{"checks/fix", "facts", "hostfile", "launch", "launch/nccl"}, clock, "the types that every family of checks and every report share"},
	{"checks/compare", 835, []string{"checks", "facts", "hostfile"}, clock, leaf},
	{"checks/fix", 1166, []string{"hostfile"}, clock, "commands are values that quote themselves; this package does not know what they repair"},
	{"checks/names", 465, []string{"checks", "checks/compare", "checks/fix", "checks/ranks", "facts", "hostfile", "launch", "launch/nccl"}, clock, leaf},
	{"checks/proof", 697, []string{"facts", "hostfile"}, clock, leaf},
	{"checks/ranks", 742, []string{"checks", "checks/compare", "checks/fix", "facts", "launch", "launch/nccl"}, clock, leaf},
	{"checks/remedy", 678, []string{"checks", "checks/compare", "checks/fix", "checks/ranks", "facts", "hostfile", "launch"}, clock, leaf},
	{"checks/ssh", 924, judging, clock, pure},
	{"checks/host", 1920, judging, clock, pure},
	{"checks/software", 2231, judging, clock, pure},
	{"checks/launcher", 4293, judging, clock, pure},
	{"checks/gpu", 4337, judging, clock, pure},
	{"checks/network", 5527, judging, clock, pure},
	{"checks/fabric", 1383, judging, clock, pure},
	{"checks/smoke", 1212, judging, clock, pure},
	{"checks/rehearsal", 720, judging, clock, pure},
	{"checks/knownbad", 586, []string{"checks", "checks/compare", "checks/fix", "checks/ranks", "facts", "hostfile", "launch", "launch/nccl"}, clock,
		"known failures are a table that is compared with facts: an entry needs no code"},
	{"diagnose/rendezvous", 478, append([]string{"checks/engine", "diagnose/hang"}, judging...), clock, "it judges an endpoint without a launch, so no check of the catalogue runs"},
	{"diagnose/hang", 2255, append([]string{"checks/engine"}, judging...), clock, "it judges a hanging job by its processes, without a launch, so no check of the catalogue runs"},
	{"checks/agreement", 2843, []string{"checks", "checks/compare", "checks/fix", "checks/names", "checks/remedy", "facts", "hostfile", "launch"}, clock,
		"it compares facts with a policy or a baseline, independently of the check families"},
	{"checks/advice", 293, judging, clock, "advice follows from what this run has proven, so it needs checks/proof and no check family"},
	{"checks/engine", 924, []string{"checks", "checks/advice", "checks/agreement", "checks/compare", "checks/fix", "checks/ranks", "facts", "hostfile", "launch"}, clock,
		"the engine runs the checks that it is given and knows none of them"},
	{"checks/catalogue", 269, []string{"checks", "checks/agreement", "checks/fabric", "checks/gpu", "checks/host", "checks/knownbad", "checks/launcher", "checks/network", "checks/rehearsal", "checks/smoke", "checks/software", "checks/ssh", "checks/engine"},
		clock, "a list of all checks: a package that needs one check must not import all others"},

	{"explain", 3600, []string{"checks", "checks/catalogue", "checks/fix", "internal/literal", "internal/logtext", "internal/secret"}, acts, "explain reads only the text that it is given: it opens, contacts and runs nothing"},

	{"report", 4300, finished, acts, draws},
	{"report/ci", 1107, append([]string{"report"}, finished...), acts, draws},
	{"report/html", 1730, append([]string{"report"}, finished...), acts, draws},
	{"report/formats", 94, []string{"checks", "report", "report/ci", "report/html"}, acts, draws},

	{".", 433, []string{"checks/...", "facts", "diagnose/...", "explain", "fleet", "hostfile", "internal/hostsys", "launch/...", "probe", "remote/...", "internal/secret"}, nil,
		"it calls the steps of a run; flags and rendering belong to the command line"},

	{"cmd/preflight/internal/usage", 82, []string{"checks/compare", "checks/fix"}, nil, "it only words the errors of a command line"},
	{"cmd/preflight/internal/inside", 115, []string{"cmd/preflight/internal/usage", "hostfile", "remote"}, nil, "it only parses a command line; other packages run it"},
	{"cmd/preflight/internal/policyfile", 707, []string{"checks/...", "cmd/preflight/internal/inside", "cmd/preflight/internal/usage", "hostfile"}, nil, "it is the only reader of policy files"},
	{"cmd/preflight/internal/agents", 107, []string{"remote"}, nil, "it only embeds the agents; the build makes them"},
	{"cmd/preflight/internal/outputs", 520, []string{"cmd/preflight/internal/usage", "report/..."}, nil, "it writes reports to files and does not know their content"},
	{"cmd/preflight/internal/progress", 256, []string{"fleet", "hostfile", "remote", "internal/secret"}, nil, "it shows a run's progress and must not change the run"},

	{"testhosts/...", 7854, []string{"hostfile", "testhosts/..."}, nil, "a stand-in that uses preflight's code would share its mistakes"},

	{"portable", 50, nil, nil, "it is linked into programs that must start with any glibc"},
	{"examples", 0, nil, nil, "tests only: they use the examples as readers do"},
	{"packaging", 11, nil, nil, "tests only: they test the built packages"},
	{"e2e", 10, nil, nil, "tests only: they test whole runs of the real binary"},
	{"e2e/gpu", 6, nil, nil, "tests only: they test whole runs on one real GPU"},
	{"oracle", 16, nil, nil, "tests only: they compare preflight with the real torch, DeepSpeed and launchers"},
}

// launching are the packages that only the launching machine needs. Everything else that is linked
// into an agent is sent to every node, verified and started there.
var launching = []string{
	"preflight", "preflight/checks/...", "preflight/diagnose/hang", "preflight/diagnose/rendezvous", "preflight/explain", "preflight/fleet", "preflight/hostfile/...", "preflight/launch/...",
	"preflight/remote/engine", "preflight/remote/kubectl", "preflight/remote/mpirun", "preflight/remote/ssh", "preflight/remote/srun", "preflight/report/...", "preflight/cmd/...",
	"crypto/tls", "golang.org/x/crypto/...", "html/...", "net/http/...", "testing/...", "text/template/...",
	"github.com/hashicorp/go-multierror", "github.com/spf13/...", "go.yaml.in/...", "gopkg.in/...",
}

// programRule is the rule of a package main. It may import what it needs, except for packages that
// it must not link.
type programRule struct {
	path  string
	lines int // as in rule
	never []string
}

var programs = []programRule{
	{"cmd/preflight", 4922, nil},
	{"cmd/agent", 25, launching},
	{"cmd/agent/pack", 73, nil},
	{"docs/picture", 193, nil},
	{"portable/floor", 164, []string{"os/exec"}},
	{"packaging/wheel", 177, []string{"os/exec"}},
	{"testhosts/bench", 670, nil},
	{"testhosts/cluster", 384, nil},
	{"testhosts/faultfs", 186, nil},
	{"testhosts/score", 498, []string{"os/exec"}},
}

// testOnly are the packages that only tests import, with their lines as in rule.
var testOnly = map[string]int{
	"testhosts/sandbox":     120,
	"testhosts/fleettest":   678,
	"testhosts/launchtest":  58,
	"testhosts/probetest":   135,
	"testhosts/carriertest": 300,
	"testhosts/remotetest":  311,
	"testhosts/reporttest":  327,
	"testhosts/secrettest":  414,
}

// onlyIn are packages that may be imported in one place only, because a second use would duplicate
// that place.
var onlyIn = []struct {
	imported string
	by       []string
	why      string
}{
	{"preflight/testhosts/...", []string{"cmd/preflight", "testhosts/..."}, "testhosts is only for tests, the demo and benchmarks"},
	{"github.com/spf13/viper", []string{"cmd/preflight/..."}, "configuration is read in one place"},
	{"github.com/spf13/cobra", []string{"cmd/preflight/..."}, "only the command line has flags"},
	{"github.com/NVIDIA/go-nvml/...", []string{"probe/nvml"}, "only a separate process may call the driver, because the call can hang or crash"},
	{"github.com/hanwen/go-fuse/...", []string{"testhosts/faultfs"}, "only a test needs a file system with defects"},
	{"golang.org/x/crypto/ssh/...", []string{"remote/...", "testhosts/..."}, "ssh is one of several ways to reach a node"},
}

func TestImportRules(t *testing.T) {
	met := map[string]bool{}
	for _, pkg := range packages(t) {
		where := pkg.below()
		for _, rule := range onlyIn {
			if at := slices.IndexFunc(pkg.Imports, matches(rule.imported)); at >= 0 && !slices.ContainsFunc(rule.by, covers(where)) {
				t.Errorf("%s imports %s: %s", where, pkg.Imports[at], rule.why)
			}
		}
		if testOnly[where] > 0 {
			met[where] = true
			continue
		}
		for _, imported := range pkg.Imports {
			if testOnly[strings.TrimPrefix(imported, "preflight/")] > 0 {
				t.Errorf("%s imports %s, which is only for tests", where, imported)
			}
		}
		if at := slices.IndexFunc(programs, func(p programRule) bool { return p.path == where }); at >= 0 {
			met[where] = true
			for _, dep := range pkg.Deps {
				if slices.ContainsFunc(programs[at].never, covers(dep)) {
					t.Errorf("%s is linked with %s, which it does not need", where, dep)
				}
			}
			continue
		}
		at := slices.IndexFunc(rules, func(r rule) bool { return covers(where)(r.path) })
		if at < 0 {
			t.Errorf("%s has no rule: add a row with its line limit, its imports and the reason", where)
			continue
		}
		met[rules[at].path] = true
		for _, imported := range pkg.Imports {
			if rules[at].forbids(imported) {
				t.Errorf("%s imports %s: %s", where, imported, rules[at].why)
			}
		}
	}
	for path := range budgets() {
		if !met[path] {
			t.Errorf("there is no package %s", path)
		}
	}
}

// TestBudgets compares the lines of every package, tests not counted, with its budget.
func TestBudgets(t *testing.T) {
	sizes := map[string]int{}
	for _, pkg := range packages(t) {
		sizes[pkg.below()] = pkg.lines(t)
	}
	for path, budget := range budgets() {
		has := 0
		for where, lines := range sizes {
			if covers(where)(path) && (where == path || !named(where)) {
				has += lines
			}
		}
		if has > budget {
			t.Errorf("%s has %d lines and may have %d: delete some, or raise the number here and give the reason in the commit", path, has, budget)
		}
	}
}

// budgets returns the lines that each package may have, by its path.
func budgets() map[string]int {
	all := maps.Clone(testOnly)
	for _, r := range rules {
		all[r.path] = r.lines
	}
	for _, p := range programs {
		all[p.path] = p.lines
	}
	return all
}

// named reports whether a package has a budget of its own.
func named(where string) bool { return budgets()[where] > 0 }

// forbids reports whether the rule forbids importing that package.
func (r rule) forbids(imported string) bool {
	if slices.Contains(r.never, imported) {
		return true
	}
	below, ours := strings.CutPrefix(imported, "preflight/")
	if imported == "preflight" {
		below, ours = ".", true
	}
	return ours && !slices.ContainsFunc(slices.Concat(everywhere, r.ours), covers(below))
}

// matches returns a function that reports whether the pattern names a path: the same path, or with
// /... one below it.
func matches(pattern string) func(path string) bool {
	return func(path string) bool { return covers(path)(pattern) }
}

// covers returns a function that reports whether a pattern names where.
func covers(where string) func(pattern string) bool {
	return func(pattern string) bool {
		above, all := strings.CutSuffix(pattern, "/...")
		return where == above || all && strings.HasPrefix(where, above+"/")
	}
}

// TestCovers guards the rules themselves: a pattern that matched nothing would forbid nothing.
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

var update = flag.Bool("update", false, "draw the picture in docs/architecture.md again")

// TestPicture compares the picture in docs/architecture.md with the imports: one box for each
// folder, and an arrow to each folder that it imports. An arrow that a longer way implies is left
// out, and so is internal, which all import.
func TestPicture(t *testing.T) {
	const page, begin, end = "docs/architecture.md", "```mermaid\n", "```\n"
	imports := map[string]map[string]bool{}
	for _, pkg := range packages(t) {
		from := folder(pkg.ImportPath)
		if imports[from] == nil {
			imports[from] = map[string]bool{}
		}
		for _, imported := range pkg.Imports {
			if to := folder(imported); to != from && from != "" && to != "" {
				imports[from][to] = true
			}
		}
	}
	var reaches func(from, to string) bool
	reaches = func(from, to string) bool {
		for via := range imports[from] {
			if via == to || reaches(via, to) {
				return true
			}
		}
		return false
	}
	drawn, id := "flowchart TD\n", strings.NewReplacer("/", "_", ".", "_")
	for _, from := range pictured {
		for _, to := range pictured {
			implied := slices.ContainsFunc(pictured, func(via string) bool { return via != to && imports[from][via] && reaches(via, to) })
			if imports[from][to] && !implied {
				drawn += fmt.Sprintf("  %s[%s] --> %s[%s]\n", id.Replace(from), from, id.Replace(to), to)
			}
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	was, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no picture", page)
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+drawn+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if was != drawn {
		t.Errorf("%s shows other imports than the code has: run make docs", page)
	}
}

// pictured are the folders that the picture has a box for. diagnose/jobs has one of its own,
// because agents link it and nothing else of diagnose.
var pictured = []string{
	"cmd/preflight", "preflight.go", "report", "explain", "diagnose", "checks", "fleet", "cmd/agent", "agent", "launch", "drill", "diagnose/jobs", "probe", "remote",
	"facts", "hostfile",
}

// folder returns the box of the picture that a package belongs to, "" for none.
func folder(importPath string) (box string) {
	if importPath == "preflight" {
		return "preflight.go"
	}
	for _, path := range pictured {
		if len(path) > len(box) && covers(strings.TrimPrefix(importPath, "preflight/"))(path+"/...") {
			box = path
		}
	}
	return box
}

type goPackage struct {
	ImportPath, Dir string
	Imports         []string // of the package itself, without its tests
	Deps            []string // its imports and theirs
}

// below returns the path of the package below the module, "." for its root.
func (p goPackage) below() string {
	if p.ImportPath == "preflight" {
		return "."
	}
	return strings.TrimPrefix(p.ImportPath, "preflight/")
}

// lines counts the lines of the package's Go files, for every system, tests not counted.
func (p goPackage) lines(t *testing.T) (lines int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no Go files: %v", p.ImportPath, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines += bytes.Count(text, []byte("\n"))
	}
	return lines
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,Deps", "./...").Output()
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
