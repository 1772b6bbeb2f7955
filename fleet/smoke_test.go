// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/agent"
	"preflight/drill"
	"preflight/drill/smoke"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/remote"
)

// smoking is a model of nodes whose ranks compute and communicate. The test sets which nodes fail.
type smoking struct {
	bad      map[string]bool    // nodes that cannot communicate with any other node
	wrong    map[string]bool    // nodes that compute wrong results
	unequal  map[string]bool    // nodes whose own ranks cannot communicate
	cut      map[[2]string]bool // pairs that cannot communicate, in hostfile order
	all      bool               // no node can communicate
	hangs    bool               // failing ranks give no answer until the time limit
	rail     string             // the only rail on which the faults exist, "" for all
	slow     map[string]bool    // nodes that compute at a tenth of the rate, and slow down reductions with other nodes
	mu       sync.Mutex
	computed map[string]int      // how often the ranks of a node computed
	meetings map[string]*meeting // groups by the address where they meet
	gone     int                 // nodes whose ranks were dismissed
}

// meeting is a group whose ranks join node after node.
type meeting struct {
	came  int
	nodes []string
	full  chan struct{}
}

func (s *smoking) methods(name string) answers {
	return answers{
		"turn":  serves(func(drill.Turn) any { return drill.Had{} }, &mock{}),
		"probe": tells(facts.Facts{Python: &facts.Python{Path: "/usr/bin/python3", Found: true}, Net: twoRails(name)}),
		"muster": func(ctx context.Context, params json.RawMessage, reply remote.Reply) error {
			var crew smoke.Crew
			if err := json.Unmarshal(params, &crew); err != nil {
				return err
			}
			up := smoke.Mustered{Backend: "gloo"}
			for _, place := range crew.Ranks {
				up.Ranks = append(up.Ranks, facts.SmokeRank{LocalRank: place.LocalRank, Device: place.Device, Load: 1})
			}
			if err := reply("answer", agent.Encode(up), false); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		},
		"command": func(ctx context.Context, params json.RawMessage, reply remote.Reply) error {
			var orders smoke.Orders
			if err := json.Unmarshal(params, &orders); err != nil {
				return err
			}
			if orders.Dismiss {
				s.mu.Lock()
				s.gone++
				s.mu.Unlock()
			}
			return reply("answer", agent.Encode(s.carriedOut(ctx, name, orders)), false)
		},
	}
}

// twoRails returns the interfaces of a node with two rails.
func twoRails(node string) *facts.Net {
	var all facts.Net
	for i, name := range []string{"eth0", "eth1"} {
		all.Interfaces = append(all.Interfaces, facts.Interface{Name: name, Up: true, Running: true, Addresses: []string{fmt.Sprintf("10.0.%d.%s/24", i, strings.TrimPrefix(node, "w"))}})
	}
	return &all
}

func (s *smoking) carriedOut(ctx context.Context, name string, orders smoke.Orders) smoke.Outcome {
	came := smoke.Outcome{Done: map[int]smoke.Done{}}
	var meet, rail string
	for _, setting := range orders.Env {
		rail = setting.Value // the last rail is the one that gloo uses
	}
	for local, order := range orders.Of {
		switch order.Do {
		case smoke.DoMeet:
			came.Done[local] = smoke.Done{Meet: fmt.Sprint(name, " ", time.Now().UnixNano())}
			return came
		case smoke.DoCompute:
			s.mu.Lock()
			if s.computed != nil {
				s.computed[name]++
			}
			s.mu.Unlock()
			if s.wrong[name] {
				came.Failures = append(came.Failures, facts.SmokeFailure{LocalRank: local, Kind: facts.SmokeWrong})
				continue
			}
			came.Done[local] = smoke.Done{Rate: s.rate(1e12, name)}
		case smoke.DoReduce:
			meet = order.Meet
			came.Done[local] = smoke.Done{BitRate: 1e9 * float64(local+1)}
		}
	}
	if meet == "" {
		return came
	}
	s.mu.Lock()
	m := s.meetings[meet]
	if m == nil {
		m = &meeting{full: make(chan struct{})}
		s.meetings[meet] = m
	}
	m.nodes = append(m.nodes, name)
	if m.came += len(orders.Of); m.came == orders.Of[0].Size {
		close(m.full)
	}
	s.mu.Unlock()
	select {
	case <-m.full:
	case <-ctx.Done():
	}
	for local, done := range came.Done {
		if s.isBy(rail) {
			came.Done[local] = smoke.Done{BitRate: s.rate(done.BitRate, m.nodes...)}
		}
	}
	if s.isBy(rail) && !s.communicate(m.nodes) {
		if s.hangs {
			time.Sleep(time.Duration(orders.Of[0].Seconds * float64(time.Second)))
		}
		came = smoke.Outcome{Failures: []facts.SmokeFailure{{Kind: facts.SmokeHang, Call: "all_reduce"}}}
	}
	return came
}

func (s *smoking) rate(usual float64, nodes ...string) float64 {
	if slices.ContainsFunc(nodes, func(node string) bool { return s.slow[node] }) {
		return usual / 10
	}
	return usual
}

// isBy reports whether the model's faults apply to a rail; "" stands for all rails.
func (s *smoking) isBy(rail string) bool { return rail == "" || s.rail == "" || rail == s.rail }

func (s *smoking) communicate(nodes []string) bool {
	if len(nodes) == 1 {
		return !s.unequal[nodes[0]]
	}
	for _, a := range nodes {
		for _, b := range nodes {
			if s.bad[a] || s.cut[[2]string{a, b}] {
				return false
			}
		}
	}
	return !s.all
}

func names(of ...string) map[string]bool {
	set := map[string]bool{}
	for _, name := range of {
		set[name] = true
	}
	return set
}

func TestSmoke(t *testing.T) {
	for _, test := range []struct {
		name  string
		nodes int
		model *smoking
		want  map[string]string // maps a node to its fault and the nodes in Against
		last  facts.SmokeStage  // the last stage in which w1 took part
	}{
		{"all is well", 4, &smoking{}, map[string]string{}, facts.SmokePair},
		{"of few all are well", 3, &smoking{}, map[string]string{}, facts.SmokeAll},
		{"a node by itself", 1, &smoking{}, map[string]string{}, facts.SmokeNode},
		{"one talks to nobody", 4, &smoking{bad: names("w3")}, map[string]string{"w3": "node [w2 w4]"}, facts.SmokeAll},
		{"two of eight", 8, &smoking{bad: names("w3", "w4")}, map[string]string{"w3": "node [w6 w1]", "w4": "node [w5 w2]"}, facts.SmokeRail},
		{"two cannot with each other", 4, &smoking{cut: map[[2]string]bool{{"w1", "w2"}: true}}, map[string]string{"w1": "edge [w2]", "w2": "edge [w1]"}, facts.SmokeRail},
		{"one computes wrong", 3, &smoking{wrong: names("w2")}, map[string]string{"w2": "alone []"}, facts.SmokeAll},
		{"the ranks of one node do not reach each other", 3, &smoking{unequal: names("w2")}, map[string]string{"w2": "alone []"}, facts.SmokeAll},
		{"of two", 2, &smoking{bad: names("w2")}, map[string]string{"w1": "among [w2]", "w2": "among [w1]"}, facts.SmokeRail},
		{"nobody", 4, &smoking{all: true}, map[string]string{"w1": "common []", "w2": "common []", "w3": "common []", "w4": "common []"}, facts.SmokeRail},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.model.meetings = map[string]*meeting{}
			var nodes []answers
			for i := range test.nodes {
				nodes = append(nodes, test.model.methods(fmt.Sprintf("w%d", i+1)))
			}
			fleet := smoked(t, Smoke{Time: time.Minute}, nodes)
			got := map[string]string{}
			for _, node := range fleet.Nodes {
				if node.Smoke == nil {
					t.Fatalf("%s: %v", node.Name, node.Missing)
				}
				if node.Smoke.Fault != "" {
					got[node.Name] = fmt.Sprint(node.Smoke.Fault, " ", node.Smoke.Against)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			trials := fleet.Nodes[0].Smoke.Trials
			if len(trials) == 0 || trials[len(trials)-1].Stage != test.last {
				t.Errorf("w1: %+v, want to the stage %q", trials, test.last)
			}
			if test.model.gone != test.nodes {
				t.Errorf("%d of %d crews were dismissed", test.model.gone, test.nodes)
			}
		})
	}
}

// smoked returns a fleet of nodes with two CPU ranks each, after the smoke test.
func smoked(t *testing.T, test Smoke, nodes []answers) facts.Fleet {
	t.Helper()
	job := running(t, nodes...)
	job.Smoke, job.Prediction.Accelerator = test, "cpu"
	job.SwitchedOff = func(check string) string {
		if slices.Contains([]string{"node-mesh", "path-mtu", "rendezvous", checkLogins, "launcher-callback"}, check) {
			return "not here"
		}
		return ""
	}
	for i := range job.Prediction.Hosts {
		job.Prediction.Hosts[i].Slots = []int{0, 1}
	}
	fleet, _ := Look(t.Context(), job)
	return fleet
}

// TestSmokeStages checks the rates by stage. The slowest rank of a node sets the node's rate.
func TestSmokeStages(t *testing.T) {
	model := &smoking{meetings: map[string]*meeting{}}
	fleet := smoked(t, Smoke{Time: time.Minute}, []answers{model.methods("w1"), model.methods("w2")})
	var got []string
	for _, trial := range fleet.Nodes[1].Smoke.Trials {
		got = append(got, fmt.Sprintf("%s of %d nodes, %d ranks: %v at %g, with %v", trial.Stage, trial.Nodes, trial.Ranks, trial.Passed, trial.Rate, trial.With))
	}
	want := []string{"node of 1 nodes, 2 ranks: true at 1e+09, with []", "one of 2 nodes, 2 ranks: true at 1e+09, with []", "all of 2 nodes, 4 ranks: true at 1e+09, with []"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if rank := fleet.Nodes[1].Smoke.Ranks[1]; rank.Rate != 1e12 || rank.Device != -1 {
		t.Errorf("%+v", rank)
	}
}

// TestSmokeOfTheSlow checks that a slow node is tried a second time, and that its partner gets
// another partner. No other node may be tried again.
func TestSmokeOfTheSlow(t *testing.T) {
	model := &smoking{meetings: map[string]*meeting{}, slow: names("w3"), computed: map[string]int{}}
	var nodes []answers
	for i := range 5 {
		nodes = append(nodes, model.methods(fmt.Sprintf("w%d", i+1)))
	}
	got := map[string]string{}
	for _, node := range smoked(t, Smoke{Time: time.Minute}, nodes).Nodes {
		for _, trial := range node.Smoke.Trials {
			if trial.Stage == facts.SmokePair {
				got[node.Name] += fmt.Sprintf("%s %g, ", trial.With[0], trial.Rate)
			}
		}
		got[node.Name] += fmt.Sprint(model.computed[node.Name], " times")
	}
	want := map[string]string{ // w5 had no partner in the first round
		"w1": "w2 1e+09, w3 1e+08, 2 times", "w2": "w1 1e+09, w4 1e+09, 2 times",
		"w3": "w4 1e+08, w1 1e+08, 4 times", "w4": "w3 1e+08, w2 1e+09, 2 times", "w5": "2 times",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSmokeByRail covers pairs that cannot reduce, and nodes that are always slow. They must be
// tried over each single rail, as far as time allows.
func TestSmokeByRail(t *testing.T) {
	for _, test := range []struct {
		name  string
		nodes int
		model *smoking
		want  map[string]string // maps a rail to its trials
	}{
		{"of two", 2, &smoking{cut: map[[2]string]bool{{"w1", "w2"}: true}, rail: "eth1"}, map[string]string{"w1": "eth0 w2 true, eth1 w2 false, ", "w2": "eth0 w1 true, eth1 w1 false, "}},
		{"an edge", 4, &smoking{cut: map[[2]string]bool{{"w1", "w3"}: true}, rail: "eth0"}, map[string]string{"w1": "eth0 w3 false, eth1 w3 true, ", "w3": "eth0 w1 false, eth1 w1 true, "}},
		{"a node, with the last that is well", 4, &smoking{bad: names("w3"), rail: "eth1"}, map[string]string{"w3": "eth0 w4 true, eth1 w4 false, ", "w4": "eth0 w3 true, eth1 w3 false, "}},
		{"nobody", 4, &smoking{all: true}, map[string]string{"w1": "eth0 w2 false, eth1 w2 false, ", "w2": "eth0 w1 false, eth1 w1 false, "}},
		{"a slow one", 5, &smoking{slow: names("w3"), rail: "eth1"}, map[string]string{"w1": "eth0 w3 true, eth1 w3 true slow, ", "w3": "eth0 w1 true, eth1 w1 true slow, "}},
		{"all are well", 4, &smoking{}, map[string]string{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.model.meetings = map[string]*meeting{}
			var nodes []answers
			for i := range test.nodes {
				nodes = append(nodes, test.model.methods(fmt.Sprintf("w%d", i+1)))
			}
			got := map[string]string{}
			for _, node := range smoked(t, Smoke{Time: time.Minute}, nodes).Nodes {
				for _, trial := range node.Smoke.Trials {
					if trial.Stage == facts.SmokeRail {
						got[node.Name] += fmt.Sprint(trial.Rail, " ", trial.With[0], " ", trial.Passed)
						if trial.Passed && trial.Rate < 1e9 {
							got[node.Name] += " slow"
						}
						got[node.Name] += ", "
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSmokeWithoutTime checks that no node is blamed if there is no time to isolate the fault.
func TestSmokeWithoutTime(t *testing.T) {
	model := &smoking{meetings: map[string]*meeting{}, bad: names("w1"), hangs: true}
	fleet := smoked(t, Smoke{Time: 2 * time.Second}, []answers{model.methods("w1"), model.methods("w2"), model.methods("w3")})
	for _, node := range fleet.Nodes {
		if node.Smoke.Fault == facts.FaultNode || len(node.Smoke.Untried) == 0 {
			t.Errorf("%s: %+v", node.Name, node.Smoke)
		}
	}
}

// TestSmokeOfStrangers checks that nothing is known about a node that reports no ranks, or other
// ranks than the test requested.
func TestSmokeOfStrangers(t *testing.T) {
	model := &smoking{meetings: map[string]*meeting{}}
	odd := model.methods("w2")
	odd["muster"] = serves(func(smoke.Crew) any { return smoke.Mustered{Ranks: []facts.SmokeRank{{LocalRank: 7}}} }, &mock{})
	fleet := smoked(t, Smoke{Time: time.Minute}, []answers{model.methods("w1"), odd})
	if fleet.Nodes[0].Smoke == nil || fleet.Nodes[1].Smoke != nil || fleet.Nodes[1].Missing[facts.SectionSmoke] == "" {
		t.Errorf("%+v %v", fleet.Nodes[1].Smoke, fleet.Nodes[1].Missing)
	}
}

// TestSmokeRefused checks that nothing runs on GPUs in use, or on nodes without a rank of the
// launch.
func TestSmokeRefused(t *testing.T) {
	used := int64(60 << 30)
	for want, card := range map[string]facts.Card{
		"GPU 0 is in MIG mode, which NCCL does not support":                              {MIG: "enabled"},
		"GPU 0 is shared through MPS: ending a test process could end other users' work": {Processes: []facts.GPUUser{{Kind: "mps"}}},
		"GPU 0 is in use":                                       {Processes: []facts.GPUUser{{Kind: "compute"}}},
		"GPU 0 has less than 4 GiB free":                        {Memory: 62 << 30, MemoryUsed: &used},
		"GPU 0 accepts no work: its compute mode is prohibited": {ComputeMode: "prohibited"},
		"": {Memory: 80 << 30, MemoryUsed: new(int64), MIG: "disabled", Processes: []facts.GPUUser{{Kind: "graphics"}, {Kind: "compute", Name: "/usr/bin/nv-hostengine"}}},
		"GPU 1 is shared through MPS: ending a test process could end other users' work": {Index: 1, Processes: []facts.GPUUser{{Kind: "compute", Name: "nvidia-cuda-mps-server"}}},
	} {
		all := membersFor(1)
		all[0].NVML = &facts.NVML{Cards: []facts.Card{card}}
		s := smokeTest{run: &run{members: all}}
		s.Prediction.Accelerator = "cuda"
		s.Prediction.Hosts = append(s.Prediction.Hosts, hostfile.Host{Name: "w1", Slots: []int{0}})
		s.ranks = map[*member][]launch.Rank{all[0]: {{}}}
		if got := s.refused(all[0], smoke.Direct); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		for want, nvml := range map[string]*facts.NVML{
			"could not read whether its GPUs are in use: nobody looked":      nil,
			"its GPU driver does not answer correctly: see gpu-driver-loads": {Failure: &facts.NVMLFailure{}},
		} {
			all[0].NVML, all[0].Missing[facts.SectionNVML] = nvml, "nobody looked"
			if got := s.refused(all[0], smoke.Direct); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
}

// TestSmokeHere checks a launch on this machine only. Its ranks must compute and reduce with each
// other.
func TestSmokeHere(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: -short, and it computes for seconds")
	}
	t.Parallel()
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("NOT RUN: the smoke test on this machine, because there is no python3")
	}
	stub, err := filepath.Abs("../drill/smoke/testdata")
	if err != nil {
		t.Fatal(err)
	}
	job := Job{Head: &facts.Node{}, Timeout: time.Minute, SwitchedOff: func(string) string { return "" }, Smoke: Smoke{Engine: smoke.Torch, Time: time.Minute}}
	job.Prediction = launch.Prediction{
		Hosts: []hostfile.Host{{Name: "localhost", Slots: []int{0, 1}}}, Interpreter: interpreter, WorkDir: t.TempDir(), Accelerator: "cpu",
		Exports: []facts.Setting{{Name: "PYTHONPATH", Value: stub}, {Name: "STUB_DIR", Value: t.TempDir()}},
	}
	fleet, _ := LookHere(t.Context(), job)
	seen := fleet.Nodes[0].Smoke
	if seen == nil || seen.Refused != "" || len(seen.Ranks) != 2 || len(seen.Trials) != 1 || seen.Fault != "" {
		t.Fatalf("%+v, missing %q, not tried %q", seen, fleet.Nodes[0].Missing[facts.SectionSmoke], fleet.NotTried[facts.SectionSmoke])
	}
	if trial := seen.Trials[0]; trial.Stage != facts.SmokeNode || trial.Ranks != 2 || !trial.Passed || seen.Ranks[1].Rate == 0 {
		t.Errorf("%+v of %+v", trial, seen.Ranks)
	}
	job.Smoke.Time = 0
	if fleet, _ = LookHere(t.Context(), job); fleet.Nodes[0].Smoke != nil || fleet.NotTried[facts.SectionSmoke] != "only with --smoke" {
		t.Errorf("nobody asked for it: %+v, not tried %q", fleet.Nodes[0].Smoke, fleet.NotTried[facts.SectionSmoke])
	}
}

// TestIsolate checks that the smoke test also runs if it must find out why a rehearsal failed, and
// only then.
func TestIsolate(t *testing.T) {
	const not = "only with --smoke"
	for _, c := range []struct {
		name        string
		accelerator string // "" for GPUs that may be in use
		isNeeded    bool
		want        string
	}{
		{"needed", "cpu", true, ""},
		{"explained", "cpu", false, not},
		{"nothing known about the GPUs", "", true, not},
	} {
		prediction := launch.Prediction{Accelerator: c.accelerator, Hosts: []hostfile.Host{{Name: "w1", Slots: []int{0}}, {Name: "w2", Slots: []int{0}}}}
		r := &run{members: membersFor(2), fleet: &facts.Fleet{NotTried: map[facts.Section]string{facts.SectionSmoke: not}}}
		r.Prediction, r.Smoke = prediction, Smoke{Time: time.Minute, Needed: func(facts.Fleet, launch.Prediction) bool { return c.isNeeded }}
		if got := r.noSmoke(); got != not {
			t.Errorf("%s: before the rehearsal: %q", c.name, got)
		}
		r.isolate(t.Context())
		if got := r.fleet.NotTried[facts.SectionSmoke]; got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
