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

// rule forbids some imports in one room, with the reason a person would want
// to read when the test stops them.
type rule struct {
	room      string
	forbidden []string // packages, or "ours" for any room that is not in allowed
	allowed   []string
	why       string
}

var rules = []rule{
	{"hostfile", []string{"ours"}, nil, "the grammar stands alone: it is what everything else starts from"},
	{"facts", []string{"ours"}, nil, "facts are a vocabulary: whoever speaks it must not drag a room along"},
	{"hostsys", []string{"ours"}, nil, "a machine is a machine to whoever runs on it: what it is asked for is not known here"},
	{"launch", []string{"ours", "os", "os/exec", "net"}, []string{"hostfile", "facts"},
		"launch predicts by rule alone, so that every rule is a table test"},
	{"remote", []string{"ours"}, []string{"hostfile", "hostsys"}, "remote reaches nodes and knows nothing of what is looked at there"},
	{"probe", []string{"ours"}, []string{"facts", "hostsys"}, "a probe observes: a check or a connection in it would be judging or calling home"},
	{"drill", []string{"ours"}, []string{"facts", "hostsys"}, "a drill tries and reports; judging is for checks"},
	{"fleet", []string{"ours"}, []string{"remote", "drill", "probe", "facts", "launch", "hostfile"},
		"a run gathers: what it is judged by, and how it is shown, must not decide what is looked at"},
	{"checks", []string{"ours", "os", "net", "os/exec", "time"}, []string{"facts", "launch", "hostfile"},
		"checks are pure: no clock, no I/O, the same fleet gives the same report"},
	{"explain", []string{"ours", "os", "net", "os/exec"}, []string{"checks"}, "a log is read as it is handed over; nothing is opened, reached or run"},
	{"report", []string{"ours", "os", "net", "os/exec"}, []string{"checks", "explain", "facts", "hostfile", "launch"},
		"rendering a finished report must not be able to change it"},
	{"testhosts", []string{"ours"}, []string{"hostfile"}, "a stand-in that uses our own code would agree with its mistakes"},
}

// probeParts look at one part of a machine each, and probe at all of them.
var probeParts = []string{"probe", "probe/gpu", "probe/host", "probe/launch", "probe/network", "probe/python"}

func TestImportRules(t *testing.T) {
	checked := map[string]bool{}
	for _, pkg := range packages(t) {
		path := strings.TrimPrefix(pkg.ImportPath, "preflight/")
		room, _, _ := strings.Cut(path, "/")
		if pkg.Name == "main" || pkg.Name == "sample" {
			continue // a program of a room, and what its tests share, may wire whatever it needs
		}
		for _, r := range rules {
			if r.room != room {
				continue
			}
			checked[room] = true
			for _, imported := range pkg.Imports {
				if r.breaks(imported) {
					t.Errorf("%s imports %s: %s", path, imported, r.why)
				}
			}
		}
		if path != "cmd/preflight" && slices.Contains(pkg.Imports, "preflight/testhosts") {
			t.Errorf("%s imports testhosts, which is for tests, the demo and benchmarks only", path)
		}
		if path != "cmd/preflight" && slices.Contains(pkg.Imports, "github.com/spf13/viper") {
			t.Errorf("%s imports viper: configuration is read in one place", path)
		}
		for _, fixture := range []string{"probe/fixture", "remote/fixture"} {
			if slices.Contains(pkg.Imports, "preflight/"+fixture) {
				t.Errorf("%s imports %s, which is for tests only", path, fixture)
			}
		}
		if path == "remote" && slices.ContainsFunc(pkg.Imports, func(imported string) bool {
			return strings.HasPrefix(imported, "preflight/remote/") || strings.Contains(imported, "crypto/ssh")
		}) {
			t.Error("remote imports a carrier: what carries the wire is nothing to it, and an agent needs none")
		}
		if path == "fleet/agent" && slices.Contains(pkg.Imports, "preflight/launch") {
			t.Errorf("%s imports launch: what runs on a node needs none of it", path)
		}
		if path != "probe" && slices.Contains(probeParts, path) && slices.ContainsFunc(pkg.Imports, func(imported string) bool {
			return slices.Contains(probeParts, strings.TrimPrefix(imported, "preflight/"))
		}) {
			t.Errorf("%s imports another part of the probe: what two of them need is for probe/machine", path)
		}
		if path != "probe/nvml" && slices.ContainsFunc(pkg.Imports, func(imported string) bool { return strings.HasPrefix(imported, "github.com/NVIDIA/go-nvml/") }) {
			t.Errorf("%s imports go-nvml: a driver is asked in a process that may hang and die of it", path)
		}
	}
	for _, room := range []string{"hostfile", "facts", "hostsys", "launch", "remote", "probe", "drill", "fleet", "checks", "explain", "report", "testhosts"} {
		if !checked[room] {
			t.Errorf("no package of %s was looked at", room)
		}
	}
}

func (r rule) breaks(imported string) bool {
	room, ours := strings.CutPrefix(imported, "preflight/")
	room, _, _ = strings.Cut(room, "/")
	if slices.Contains(r.forbidden, imported) || ours && slices.Contains(r.forbidden, room) {
		return true
	}
	return ours && slices.Contains(r.forbidden, "ours") && room != r.room && !slices.Contains(r.allowed, room)
}

type goPackage struct {
	ImportPath, Name string
	Imports          []string // of the package itself, without its tests
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Name,Imports", "./...").Output()
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
