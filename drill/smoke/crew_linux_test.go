// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"preflight/facts"
)

// plenty is the time limit for steps that do not hang. short is the limit for steps that hang.
const (
	plenty = time.Minute
	short  = 2 * time.Second
)

// ranks returns a crew that uses the torch in testdata with the given fault.
func ranks(t *testing.T, count int, fault string) (Crew, string) {
	t.Helper()
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	stub, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	crew := Crew{
		Token: dir, Engine: Torch, Interpreter: interpreter, WorkDir: dir, Accelerator: "cpu", Limit: plenty,
		Env: []facts.Setting{{Name: "PYTHONPATH", Value: stub}, {Name: "STUB", Value: fault}, {Name: "STUB_DIR", Value: dir}},
	}
	for local := range count {
		crew.Ranks = append(crew.Ranks, Place{LocalRank: local, Device: -1})
	}
	t.Cleanup(func() { nobody(t, dir) })
	return crew, dir
}

// hold holds a crew until the test ends or end is called.
func hold(t *testing.T, c Crew) (mustered Mustered, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	up, over := make(chan Mustered, 1), make(chan struct{})
	go func() {
		defer close(over)
		if err := c.Hold(ctx, func(m Mustered) error { up <- m; return nil }); err != context.Canceled {
			t.Errorf("the crew ended with %v", err)
		}
	}()
	end = func() {
		cancel()
		<-over
	}
	t.Cleanup(end)
	return <-up, end
}

// nobody fails the test if a process that was started with the given directory still runs.
func nobody(t *testing.T, dir string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) { // the kernel takes a moment to act on SIGKILL
		var there []string
		processes, _ := filepath.Glob("/proc/[0-9]*")
		for _, process := range processes {
			// A process that has ended has an empty environment.
			if environ, _ := os.ReadFile(process + "/environ"); strings.Contains(string(environ), "STUB_DIR="+dir) {
				there = append(there, process)
			}
		}
		switch {
		case len(there) == 0:
			return
		case time.Now().After(end):
			t.Fatalf("still there: %v", there)
		}
	}
}

func wantFailure(t *testing.T, got *facts.SmokeFailure, want facts.SmokeFailure) {
	t.Helper()
	if diff := cmp.Diff(&want, got, cmpopts.IgnoreFields(facts.SmokeFailure{}, "Log")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func number(of float64) *float64 { return &of }

// order makes one rank carry out an order.
func (c Crew) order(ctx context.Context, do string, limit time.Duration) (Done, *facts.SmokeFailure) {
	order := Order{Do: do, Seconds: 0.01, Size: 3, Bytes: 400}
	if do == DoReduce {
		order.Meet = "127.0.0.1:1"
	}
	outcome := Orders{Token: c.Token, Limit: limit, Of: map[int]Order{0: order}}.Run(ctx)
	if len(outcome.Failures) > 0 {
		return Done{}, &outcome.Failures[0]
	}
	return outcome.Done[0], nil
}

func TestCrewLoads(t *testing.T) {
	t.Parallel()
	const importing = "import torch"
	for fault, want := range map[string]*facts.SmokeFailure{
		"":               nil,
		"noise import":   nil,
		"flood import":   nil,
		"fork import":    nil,
		"imitate import": nil,
		"hang import":    {Kind: facts.SmokeHang, Call: importing, Message: "no answer within 2 s"},
		"exit import":    {Kind: facts.SmokeCrash, Call: importing, Message: "the process ended: exit status 3"},
		"crash import":   {Kind: facts.SmokeCrash, Call: importing, Message: "the process ended: signal: segmentation fault"},
		"refuse import":  {Kind: facts.SmokeError, Call: importing, Message: "RuntimeError: it is refused"},
		"lack import":    {Kind: facts.SmokeAbsent, Call: importing, Message: "ModuleNotFoundError: No module named 'torch'"},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			crew, _ := ranks(t, 1, fault)
			if strings.HasPrefix(fault, "hang") {
				crew.Limit = short
			}
			mustered, _ := hold(t, crew)
			got := mustered.Ranks[0]
			if want != nil {
				if strings.HasPrefix(fault, "hang") && strings.HasPrefix(got.Failure.Call, "exec ") {
					got.Failure.Call = importing // on a busy machine the rank may not get further than this call
				}
				wantFailure(t, got.Failure, *want)
			} else if got.Failure != nil || got.Name != "CPU" || mustered.Backend != "gloo" {
				t.Errorf("%+v, %+v, by %q", got, got.Failure, mustered.Backend)
			}
		})
	}
}

func TestCrewWithoutInterpreter(t *testing.T) {
	crew, dir := ranks(t, 1, "")
	crew.Interpreter = dir + "/python"
	mustered, _ := hold(t, crew)
	wantFailure(t, mustered.Ranks[0].Failure, facts.SmokeFailure{Kind: facts.SmokeAbsent, Call: "exec " + crew.Interpreter,
		Message: "fork/exec " + crew.Interpreter + ": no such file or directory"})
}

func TestCrewCarriesOutOrders(t *testing.T) {
	t.Parallel()
	five := int64(5)
	tests := []struct {
		fault, do string
		want      *facts.SmokeFailure // nil for none
	}{
		{"", DoCompute, nil},
		{"", DoMeet, nil},
		{"", DoReduce, nil},
		{"noise reduce,flood reduce", DoReduce, nil},
		{"fork reduce", DoReduce, nil},
		{"wrong compute", DoCompute, &facts.SmokeFailure{Kind: facts.SmokeWrong, Call: "torch.matmul", Message: "element 5 is 7, not 520; 8 of 32768 are wrong", Element: &five, Got: number(7), Want: number(520)}},
		{"nan compute", DoCompute, &facts.SmokeFailure{Kind: facts.SmokeWrong, Call: "torch.matmul", Message: "element 5 is nan, not 520; 8 of 32768 are wrong", Element: &five, Want: number(520)}},
		{"crash compute", DoCompute, &facts.SmokeFailure{Kind: facts.SmokeCrash, Call: "torch.matmul", Message: "the process ended: signal: segmentation fault"}},
		{"hang meet", DoMeet, &facts.SmokeFailure{Kind: facts.SmokeHang, Call: "torch.distributed.TCPStore", Message: "no answer within 2 s"}},
		{"refuse join", DoReduce, &facts.SmokeFailure{Kind: facts.SmokeError, Call: "torch.distributed.TCPStore", Message: "RuntimeError: it is refused"}},
		{"hang init", DoReduce, &facts.SmokeFailure{Kind: facts.SmokeHang, Call: "torch.distributed.init_process_group", Message: "no answer within 2 s"}},
		{"hang reduce", DoReduce, &facts.SmokeFailure{Kind: facts.SmokeHang, Call: "torch.distributed.all_reduce", Message: "no answer within 2 s"}},
		{"imitate reduce,hang reduce", DoReduce, &facts.SmokeFailure{Kind: facts.SmokeHang, Call: strings.Repeat("z", maxLine), Message: "no answer within 2 s"}},
		{"hang destroy", DoReduce, &facts.SmokeFailure{Kind: facts.SmokeHang, Call: "torch.distributed.destroy_process_group", Message: "no answer within 2 s"}},
		{"wrong reduce", DoReduce, &facts.SmokeFailure{Kind: facts.SmokeWrong, Call: "torch.distributed.all_reduce", Message: "element 5 is 7, not 6; 1 of 100 are wrong", Element: &five, Got: number(7), Want: number(6)}},
		{"nan reduce", DoReduce, &facts.SmokeFailure{Kind: facts.SmokeWrong, Call: "torch.distributed.all_reduce", Message: "element 5 is nan, not 6; 1 of 100 are wrong", Element: &five, Want: number(6)}},
	}
	for _, tt := range tests {
		t.Run(tt.fault+" "+tt.do, func(t *testing.T) {
			t.Parallel()
			crew, _ := ranks(t, 1, tt.fault)
			hold(t, crew)
			limit := plenty
			if strings.Contains(tt.fault, "hang") {
				limit = short
			}
			done, failure := crew.order(t.Context(), tt.do, limit)
			if tt.want == nil {
				if failure != nil || done.Rate+done.BitRate == 0 && done.Meet != "127.0.0.1:29500" {
					t.Errorf("%+v, %+v", done, failure)
				}
				return
			}
			wantFailure(t, failure, *tt.want)
			again := DoMeet
			if tt.do == DoMeet {
				again = DoCompute
			}
			for _, do := range []string{DoLoad, again} {
				if _, failure := crew.order(t.Context(), do, plenty); failure != nil {
					t.Errorf("loaded anew, it does not %s: %+v", do, failure)
				}
			}
		})
	}
}

// TestCrewKeepsTheLog checks that the last lines of a library's output are reported with the
// failure.
func TestCrewKeepsTheLog(t *testing.T) {
	t.Parallel()
	crew, _ := ranks(t, 1, "flood reduce,noise reduce,refuse reduce")
	hold(t, crew)
	_, failure := crew.order(t.Context(), DoReduce, plenty)
	want := slices.Repeat([]string{"y"}, maxLog-5)
	want = append(want, `{"done": {"name": "somebody else"}}`, `{"done": {"name": "somebody else"}}`, "no enda warning", "it is refused", "for reasons")
	if diff := cmp.Diff(want, failure.Log); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestCrewEndsInEveryState checks that no process is left when the crew's time is over, whatever
// the ranks are doing. The function ranks performs the check.
func TestCrewEndsInEveryState(t *testing.T) {
	t.Parallel()
	for fault, do := range map[string]string{
		"hang import": "", "hang compute": DoCompute, "hang meet": DoMeet, "hang join": DoReduce, "hang init": DoReduce, "hang reduce": DoReduce,
		"hang destroy": DoReduce, "fork import,hang reduce": DoReduce,
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			crew, dir := ranks(t, 2, fault)
			ctx, cancel := context.WithCancel(t.Context())
			held := make(chan error, 1)
			go func() {
				held <- crew.Hold(ctx, func(Mustered) error {
					if do != "" {
						os.Remove(dir + "/hangs") // belongs to a forked process
						go crew.order(ctx, do, plenty)
					}
					return nil
				})
			}()
			for {
				if _, err := os.Stat(dir + "/hangs"); err == nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
			cancel()
			if err := <-held; err != context.Canceled {
				t.Errorf("the crew ended with %v", err)
			}
			nobody(t, dir)
			if _, failure := crew.order(t.Context(), DoLoad, plenty); failure == nil {
				t.Error("a crew that has ended takes orders")
			}
		})
	}
}

// TestCrewLoadsAnewWhoEndedLate checks a rank that ended too late. It must no longer count as
// hanging once its process is gone.
func TestCrewLoadsAnewWhoEndedLate(t *testing.T) {
	t.Parallel()
	crew, _ := ranks(t, 1, "")
	hold(t, crew)
	crews.Lock()
	late := crews.of[crew.Token].members[0].rank
	crews.Unlock()
	late.end()
	late.stuck = true
	if _, failure := crew.order(t.Context(), DoCompute, plenty); failure != nil {
		t.Errorf("the rank that is to be loaded anew: %+v", failure)
	}
}

// TestCrewByAnotherRail checks that a rank is started once with the variables of some orders. For
// later orders, the rank must be restarted without those variables.
func TestCrewByAnotherRail(t *testing.T) {
	t.Parallel()
	crew, dir := ranks(t, 1, "refuse compute GLOO_SOCKET_IFNAME=eth1")
	hold(t, crew)
	by := func(name string) []facts.Setting { return []facts.Setting{{Name: "GLOO_SOCKET_IFNAME", Value: name}} }
	was := ""
	for i, step := range []struct {
		env          []facts.Setting
		isNew, fails bool
	}{{nil, false, false}, {by("eth0"), true, false}, {by("eth0"), false, false}, {by("eth1"), true, true}, {nil, true, false}} {
		outcome := Orders{Token: crew.Token, Limit: plenty, Env: step.env, Of: map[int]Order{0: {Do: DoCompute, Seconds: 0.01}}}.Run(t.Context())
		if (len(outcome.Failures) > 0) != step.fails {
			t.Errorf("step %d: %+v", i, outcome)
		}
		if step.fails {
			was = "" // a rank that has failed is ended, so the next one is new
			continue
		}
		if current := processOf(t, dir); i > 0 && (current != was) != step.isNew {
			t.Errorf("step %d: process %s after %s", i, current, was)
		} else {
			was = current
		}
	}
}

// processOf returns the process ID of the rank that was started with the given directory.
func processOf(t *testing.T, dir string) string {
	t.Helper()
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		if environ, _ := os.ReadFile(process + "/environ"); strings.Contains(string(environ), "STUB_DIR="+dir) {
			return process
		}
	}
	t.Fatal("no rank is there")
	return ""
}

func TestRemoveSince(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("used"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("nccl-before")
	before := SharedMemory(dir)
	write("nccl-unused")
	write("data-of-others")
	used, err := os.Open(write("nccl-used"))
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	memory, err := unix.Mmap(int(used.Fd()), 0, 4, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	if diff := cmp.Diff([]string{used.Name()}, RemoveSince(dir, before)); diff != "" {
		t.Errorf("left: (-want +got)\n%s", diff)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if diff := cmp.Diff([]string{"data-of-others", "nccl-before", "nccl-used"}, names); diff != "" {
		t.Errorf("there: (-want +got)\n%s", diff)
	}
}

func TestEnvironment(t *testing.T) {
	crew := Crew{Env: []facts.Setting{{Name: "NCCL_DEBUG", Value: "INFO"}, {Name: "HF_TOKEN", Value: "…"}, {Name: "NCCL_COMM_ID", Value: "10.0.0.1:1"}}}
	got := crew.environment([]string{"HOME=/root", "HF_TOKEN=its own", "MASTER_ADDR=10.0.0.1", "RANK=3", "RANKS=3", "LOCAL_RANK=9"}, Place{LocalRank: 2, Visible: "4,5"}, nil)
	want := []string{"NCCL_DEBUG=WARN", "NCCL_RUN_DIAGNOSTICS=1", "HOME=/root", "HF_TOKEN=its own", "RANKS=3", "NCCL_DEBUG=INFO", "LOCAL_RANK=2", "TORCH_NCCL_DUMP_ON_TIMEOUT=0", "CUDA_VISIBLE_DEVICES=4,5"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
