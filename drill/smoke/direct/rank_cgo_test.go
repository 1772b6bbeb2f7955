// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package direct

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"preflight/drill/smoke"
	"preflight/facts"
	"preflight/testhosts/gpus"
)

// child is a rank to which a test gives orders.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	orders io.WriteCloser
	words  *bufio.Scanner
	log    bytes.Buffer
	calls  []string // calls that the rank announced
}

// tooLong is the time after which a rank that has neither answered nor ended is killed.
const tooLong = 30 * time.Second

// start starts a rank with a GPU of a machine. The rank's first answer is the result of loading.
func start(t *testing.T, machine gpus.Machine, device int) *child {
	t.Helper()
	dir := t.TempDir()
	if _, err := gpus.BuildCUDA(dir, machine); errors.Is(err, gpus.ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return startIn(t, dir, device, "")
}

func startIn(t *testing.T, dir string, device int, library string) *child {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), tooLong)
	t.Cleanup(cancel)
	c := &child{t: t, cmd: exec.CommandContext(ctx, "/proc/self/exe", "agent", "smoke", fmt.Sprint(device), library)}
	c.cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, gpus.ScenarioVariable+"="+filepath.Join(dir, gpus.ScenarioName), "NCCL_SOCKET_IFNAME=lo")
	c.cmd.Stderr = &c.log
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.words = bufio.NewScanner(out)
	if c.orders, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.orders.Close()
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
	return c
}

func (c *child) order(order smoke.Order) {
	if err := json.NewEncoder(c.orders).Encode(order); err != nil {
		c.t.Error(err)
	}
}

// answer returns the rank's next answer. At the end of the rank's output, it returns an empty
// answer.
func (c *child) answer() (word smoke.Word) {
	for c.words.Scan() {
		if c.words.Text() == "" {
			continue
		}
		word = smoke.Word{}
		if err := json.Unmarshal(c.words.Bytes(), &word); err != nil {
			c.t.Errorf("a line that is no word: %q", c.words.Text())
		}
		if word.At == "" {
			return word
		}
		c.calls = append(c.calls, word.At)
	}
	return smoke.Word{}
}

// done returns the next answer, which must be a success.
func (c *child) done() smoke.Done {
	c.t.Helper()
	word := c.answer()
	if word.Done == nil {
		c.t.Fatalf("the rank failed at %s: %s", c.at(), text(word))
	}
	return *word.Done
}

func (c *child) at() string {
	if len(c.calls) == 0 {
		return "nothing"
	}
	return c.calls[len(c.calls)-1]
}

func text(word smoke.Word) string {
	all, _ := json.Marshal(word)
	return string(all)
}

func TestLoad(t *testing.T) {
	t.Parallel()
	machine := gpus.H100s(2)
	c := start(t, machine, 1)
	got := c.done()
	if want := (smoke.Done{Name: "NVIDIA H100 80GB HBM3", Address: machine.Cards[1].Address(), Backend: "nccl"}); got != want {
		t.Errorf("loaded\n%+v, not\n%+v", got, want)
	}
	want := []string{"dlopen libcuda.so.1", "dlopen libnccl.so.2", "cuInit", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetPCIBusId", "cuDeviceGetAttribute",
		"cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemGetInfo_v2", "cuStreamCreate"}
	if !slices.Equal(c.calls, want) {
		t.Errorf("announced %q, not %q", c.calls, want)
	}
	c.orders.Close()
	if word := c.answer(); word != (smoke.Word{}) || c.cmd.Wait() != nil {
		t.Errorf("at the end of its orders it said %s, and ended with %s", text(word), c.cmd.ProcessState)
	}
}

func TestLoadFails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*gpus.Machine)
		want   facts.SmokeFailure
	}{
		{"an old library", func(m *gpus.Machine) { m.Without = []string{"ncclCommAbort"} },
			facts.SmokeFailure{Kind: facts.SmokeAbsent, Call: "dlsym ncclCommAbort", Message: "libnccl.so.2 has no ncclCommAbort"}},
		{"a mismatch", func(m *gpus.Machine) { m.Init = 18 },
			facts.SmokeFailure{Kind: facts.SmokeError, Call: "cuInit",
				Message: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): system has unsupported display driver / cuda driver combination"}},
		{"one that is in use", func(m *gpus.Machine) { m.Cards[0].MemoryUsed = 79 << 30 },
			facts.SmokeFailure{Kind: facts.SmokeAbsent, Call: "cuMemGetInfo_v2",
				Message: "the GPU is in use: 0.1 GiB of 79.6 GiB are free, and the test needs 4 GiB"}},
		{"another's alone", func(m *gpus.Machine) {
			m.Cards[0].ComputeMode = "exclusive-process"
			m.Cards[0].Processes = []gpus.Process{{PID: 1, Kind: "compute"}}
		}, facts.SmokeFailure{Kind: facts.SmokeError, Call: "cuDevicePrimaryCtxRetain",
			Message: "CUDA_ERROR_DEVICE_UNAVAILABLE (46): CUDA-capable device(s) is/are busy or unavailable; the GPU's compute mode is exclusive-process, and another process uses it"}},
		{"shared", func(m *gpus.Machine) { m.Cards[0].Trouble = map[string]string{"cuDeviceGetAttribute": "mps"} },
			facts.SmokeFailure{Kind: facts.SmokeAbsent, Call: "cuDeviceGetAttribute",
				Message: "the GPU is shared through MPS: ending a test process could end other users' work"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			machine := gpus.H100s(1)
			test.change(&machine)
			c := start(t, machine, 0)
			if word := c.answer(); word.Failed == nil || text(word) != text(smoke.Word{Failed: &test.want}) {
				t.Errorf("%s, not\n%s", text(word), text(smoke.Word{Failed: &test.want}))
			}
			if err := c.cmd.Wait(); err != nil {
				t.Errorf("then it ended with %v", err)
			}
		})
	}
}

func TestNoLibrary(t *testing.T) {
	t.Parallel()
	word := startIn(t, t.TempDir(), 0, "").answer()
	if word.Failed == nil || word.Failed.Kind != facts.SmokeAbsent || !strings.Contains(word.Failed.Message, "libcuda.so.1: cannot open shared object file") {
		t.Errorf("%s", text(word))
	}
}

func TestCompute(t *testing.T) {
	t.Parallel()
	c := start(t, gpus.H100s(1), 0)
	c.done()
	for range 2 {
		c.order(smoke.Order{Do: smoke.DoCompute, Seconds: 0.1})
		if got := c.done(); got.Rate <= 0 || got.HostToDevice <= 0 || got.DeviceToHost <= 0 || got.DeviceToDevice <= 0 {
			t.Errorf("a rate is missing: %+v", got)
		}
	}
}

func TestComputesWrong(t *testing.T) {
	t.Parallel()
	for call, says := range map[string]string{
		"cuMemcpyHtoDAsync_v2": "cuMemcpyDtoHAsync_v2", // the substitute library cannot distinguish these two functions
		"cuMemcpyDtoHAsync_v2": "cuMemcpyDtoHAsync_v2",
		"cuMemcpyDtoDAsync_v2": "cuMemcpyDtoDAsync_v2",
		"cuLaunchKernel":       "cuLaunchKernel",
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			machine := gpus.H100s(1)
			machine.Cards[0].Trouble = map[string]string{call: "wrong"}
			c := start(t, machine, 0)
			c.done()
			c.order(smoke.Order{Do: smoke.DoCompute, Seconds: 0.1})
			got := c.answer().Failed
			if got == nil || got.Kind != facts.SmokeWrong || got.Call != says || got.Element == nil || *got.Element != size/4/2 {
				t.Errorf("%s, not that %s has word %d wrong", text(smoke.Word{Failed: got}), says, size/4/2)
			}
		})
	}
}

func TestComputeFails(t *testing.T) {
	t.Parallel()
	machine := gpus.H100s(1)
	machine.Cards[0].Fails = map[string]int{"cuStreamSynchronize": 214}
	c := start(t, machine, 0)
	c.done()
	c.order(smoke.Order{Do: smoke.DoCompute, Seconds: 0.1})
	want := smoke.Word{Failed: &facts.SmokeFailure{Kind: facts.SmokeError, Call: "cuStreamSynchronize",
		Message: "CUDA_ERROR_ECC_UNCORRECTABLE (214): uncorrectable ECC error encountered"}}
	if word := c.answer(); text(word) != text(want) {
		t.Errorf("%s, not\n%s", text(word), text(want))
	}
}

// group starts one rank on each GPU of a machine, and returns their answers to a reduction.
func group(t *testing.T, machine gpus.Machine, seconds float64) (ranks []*child, answers []smoke.Word) {
	t.Helper()
	for device := range machine.Cards {
		ranks = append(ranks, start(t, machine, device))
		ranks[device].done()
	}
	return ranks, reduce(ranks, seconds)
}

func reduce(ranks []*child, seconds float64) (answers []smoke.Word) {
	ranks[0].order(smoke.Order{Do: smoke.DoMeet, Seconds: seconds})
	meet := ranks[0].done().Meet
	for rank, c := range ranks {
		c.order(smoke.Order{Do: smoke.DoReduce, Seconds: seconds, Rank: rank, Size: len(ranks), Meet: meet, Bytes: 1 << 20})
	}
	for _, c := range ranks {
		answers = append(answers, c.answer())
	}
	return answers
}

func TestReduce(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		machine := gpus.H100s(3)
		if old {
			machine.Without = []string{"ncclCommInitRankConfig", "ncclCommFinalize", "ncclGetLastError"}
		}
		ranks, answers := group(t, machine, 20)
		answers = append(answers, reduce(ranks[1:], 20)...) // reduce again with the remaining ranks, so that another rank is the first
		for _, answer := range answers {
			if answer.Done == nil || answer.Done.BitRate <= 0 {
				t.Errorf("%s, not a rate", text(answer))
			}
		}
		if made := slices.Contains(ranks[0].calls, "ncclCommInitRankConfig"); made == old || ranks[0].at() != "cuMemFreeHost" {
			t.Errorf("of an old library: %t, but it called %q", old, ranks[0].calls)
		}
	}
}

// TestReduceFails checks a rank that fails with card 1. The other ranks may notice that it has
// ended, or may notice nothing.
func TestReduceFails(t *testing.T) {
	t.Parallel()
	const hang = "it did not finish within 4.5 s" // of the 6 s, so that a busy machine has time for the other steps
	for _, test := range []struct {
		name    string
		trouble map[string]string
		fails   map[string]int
		seconds float64
		want    facts.SmokeFailure // Message is compared as a prefix
	}{
		{"hangs in init", map[string]string{"ncclCommInitRankConfig": "hang"}, nil, 6, facts.SmokeFailure{Kind: facts.SmokeHang, Call: "ncclCommInitRankConfig", Message: hang}},
		{"hangs in a call", map[string]string{"ncclAllReduce": "hang"}, nil, 6, facts.SmokeFailure{Kind: facts.SmokeHang, Call: "ncclAllReduce", Message: hang}},
		{"hangs on the GPU", map[string]string{"cuStreamQuery": "busy"}, nil, 6, facts.SmokeFailure{Kind: facts.SmokeHang, Call: "ncclAllReduce", Message: hang}},
		{"hangs in destroy", map[string]string{"ncclCommDestroy": "hang"}, nil, 6, facts.SmokeFailure{Kind: facts.SmokeHang, Call: "ncclCommDestroy", Message: hang}},
		{"hangs, and in abort", map[string]string{"ncclAllReduce": "hang", "ncclCommAbort": "hang"}, nil, 6,
			facts.SmokeFailure{Kind: facts.SmokeHang, Call: "ncclAllReduce", Message: hang + "; ncclCommAbort does not return either"}},
		{"wrong", map[string]string{"ncclAllReduce": "wrong"}, nil, 20, facts.SmokeFailure{Kind: facts.SmokeWrong, Call: "ncclAllReduce", Message: "element 131072 of 262144 is 4, not 3"}},
		{"no number", map[string]string{"ncclAllReduce": "nan"}, nil, 20, facts.SmokeFailure{Kind: facts.SmokeWrong, Call: "ncclAllReduce", Message: "element 131072 of 262144 is NaN, not 3"}},
		{"asynchronous", nil, map[string]int{"ncclCommGetAsyncError": 6}, 20,
			facts.SmokeFailure{Kind: facts.SmokeError, Call: "ncclCommInitRankConfig", Message: "remote process exited or there was a network error"}},
		{"refused", nil, map[string]int{"ncclAllReduce": 2}, 20,
			facts.SmokeFailure{Kind: facts.SmokeError, Call: "ncclAllReduce", Message: "unhandled system error (run with NCCL_DEBUG=INFO for details): ncclAllReduce failed, as it was told to"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			machine := gpus.H100s(2)
			machine.Cards[1].Trouble, machine.Cards[1].Fails = test.trouble, test.fails
			ranks, answers := group(t, machine, test.seconds)
			got := answers[1].Failed
			if got == nil || got.Kind != test.want.Kind || got.Call != test.want.Call || !strings.HasPrefix(got.Message, test.want.Message) {
				t.Errorf("%s, not\n%s", text(answers[1]), text(smoke.Word{Failed: &test.want}))
			}
			if got != nil && test.want.Kind == facts.SmokeWrong && (got.Element == nil || *got.Element != 131072 || *got.Want != 3 || answers[0].Done == nil) {
				t.Errorf("%s, and the other %s", text(answers[1]), text(answers[0]))
			}
			if err := ranks[1].cmd.Wait(); err != nil {
				t.Errorf("then it ended with %v", err)
			}
		})
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	machine := gpus.H100s(2)
	machine.Cards[1].Trouble = map[string]string{"ncclAllReduce": "crash"}
	ranks, answers := group(t, machine, 20)
	if answers[1] != (smoke.Word{}) || ranks[1].at() != "ncclAllReduce" {
		t.Errorf("%s at %s, not an end without a word", text(answers[1]), ranks[1].at())
	}
	if got := answers[0].Failed; got == nil || got.Kind != facts.SmokeError || !strings.HasSuffix(got.Message, "connection closed by remote peer") {
		t.Errorf("the other says %s", text(answers[0]))
	}
	ranks[0].cmd.Wait()
	if !strings.Contains(ranks[0].log.String(), "NCCL WARN") {
		t.Errorf("what NCCL prints is not in the log: %q", ranks[0].log.String())
	}
}

// TestReduceSlowly also makes NCCL leave a file behind, which the crew must remove.
func TestReduceSlowly(t *testing.T) {
	t.Parallel()
	machine := gpus.H100s(2)
	machine.Cards[1].Trouble = map[string]string{"ncclAllReduce": "slow", "ncclCommInitRankConfig": "leave"}
	ranks, answers := group(t, machine, 20)
	const most = 2 * 0.5 * (1 << 20) * 8 * timed / (timed * 0.1) // a tenth of a second for each reduction
	for _, answer := range answers {
		if answer.Done == nil || answer.Done.BitRate <= 0 || answer.Done.BitRate > most {
			t.Errorf("%s, not a rate of at most %.0f", text(answer), most)
		}
	}
	// The crew of another test may have removed the file.
	if err := os.Remove(fmt.Sprintf("/dev/shm/nccl-%06x", ranks[1].cmd.Process.Pid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
