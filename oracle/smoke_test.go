// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"preflight/drill/smoke"
	"preflight/facts"
)

// patching returns a sitecustomize, which Python imports before anything else. It makes torch's
// all_reduce run the code in do before it reduces, but only in the rank whose LOCAL_RANK is local.
func patching(local int, do string) string {
	return strings.NewReplacer("NUMBER", strconv.Itoa(local), "DO", do).Replace(patched)
}

const patched = `
import importlib.abc, os, sys

class Patch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "torch.distributed":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            reduce = module.all_reduce
            def all_reduce(tensor, *args, **kwargs):
                DO
                return reduce(tensor, *args, **kwargs)
            module.all_reduce = all_reduce
        spec.loader.exec_module = exec_module
        return spec

import importlib.util
if os.environ.get("LOCAL_RANK") == "NUMBER":
    sys.meta_path.insert(0, Patch())
`

// smokers starts two ranks of a real torch on this machine. The second rank has the patch.
func smokers(t *testing.T, r release, patch string) smoke.Crew {
	t.Helper()
	crew := smoke.Crew{
		Token: t.Name(), Engine: smoke.Torch, Interpreter: r.python, WorkDir: t.TempDir(), Accelerator: "cpu",
		Ranks: []smoke.Place{{LocalRank: 0, Device: -1}, {LocalRank: 1, Device: -1}}, Limit: 2 * time.Minute,
	}
	if patch != "" {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "sitecustomize.py"), []byte(patching(1, patch)), 0o644); err != nil {
			t.Fatal(err)
		}
		crew.Env = []facts.Setting{{Name: "PYTHONPATH", Value: dir}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	mustered, over := make(chan smoke.Mustered, 1), make(chan struct{})
	go func() {
		defer close(over)
		_ = crew.Hold(ctx, func(m smoke.Mustered) error { mustered <- m; return nil }) // the error is that of ctx
	}()
	t.Cleanup(func() {
		cancel()
		<-over
	})
	for _, rank := range (<-mustered).Ranks {
		if rank.Failure != nil {
			t.Fatalf("torch %s is needed: run oracle/setup.sh: %+v", r.name, rank.Failure)
		}
		t.Logf("rank %d has loaded in %.1f s", rank.LocalRank, rank.Load)
	}
	return crew
}

// reduce lets both ranks meet and then reduce. If elsewhere is set, one rank gets this address
// instead.
func reduce(t *testing.T, c smoke.Crew, elsewhere string, limit time.Duration) smoke.Outcome {
	t.Helper()
	met := smoke.Orders{Token: c.Token, Limit: patience, Of: map[int]smoke.Order{0: {Do: smoke.DoMeet, Size: 2, Seconds: 10}}}.Run(t.Context())
	if len(met.Failures) > 0 {
		t.Fatalf("they have not met: %+v", met.Failures)
	}
	order := smoke.Order{Do: smoke.DoReduce, Size: 2, Seconds: 10, Meet: met.Done[0].Meet, Bytes: 4 << 20}
	other := order
	other.Rank = 1
	if elsewhere != "" {
		other.Meet = elsewhere
	}
	return smoke.Orders{Token: c.Token, Limit: limit, Of: map[int]smoke.Order{0: order, 1: other}}.Run(t.Context())
}

// of returns the failure of a rank, or nil if it did not fail.
func of(o smoke.Outcome, local int) *facts.SmokeFailure {
	for i := range o.Failures {
		if o.Failures[i].LocalRank == local {
			return &o.Failures[i]
		}
	}
	return nil
}

// TestSmoke lets two ranks of every torch release compute and reduce. It checks that every fault is
// recognized.
func TestSmoke(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, r release) {
		t.Run("well", func(t *testing.T) {
			crew := smokers(t, r, "")
			both := map[int]smoke.Order{0: {Do: smoke.DoCompute, Seconds: 1}, 1: {Do: smoke.DoCompute, Seconds: 1}}
			computed := smoke.Orders{Token: crew.Token, Limit: time.Minute, Of: both}.Run(t.Context())
			if len(computed.Failures) > 0 || computed.Done[0].Rate < 1e8 || computed.Done[1].Rate < 1e8 {
				t.Errorf("computing: %+v", computed)
			}
			for range 2 { // the first run must leave nothing that disturbs the second
				if got := reduce(t, crew, "", patience); len(got.Failures) > 0 || got.Done[0].BitRate < 1e6 || got.Done[1].BitRate < 1e6 {
					t.Errorf("reducing: %+v", got)
				} else {
					t.Logf("%.2g bit/s", got.Done[0].BitRate)
				}
			}
		})
		t.Run("wrong", func(t *testing.T) {
			got := reduce(t, smokers(t, r, "tensor.reshape(-1)[-1] += 1"), "", patience)
			failure := of(got, 0)
			if failure == nil || failure.Kind != facts.SmokeWrong || failure.Element == nil || *failure.Element != 1<<20-1 || *failure.Got != 4 || *failure.Want != 3 {
				t.Errorf("%+v", got)
			}
		})
		t.Run("nan", func(t *testing.T) {
			got := reduce(t, smokers(t, r, `tensor.reshape(-1)[0] = float("nan")`), "", patience)
			if failure := of(got, 1); failure == nil || failure.Kind != facts.SmokeWrong || failure.Got != nil || *failure.Want != 3 {
				t.Errorf("%+v", got)
			}
		})
		t.Run("hang", func(t *testing.T) {
			got := reduce(t, smokers(t, r, "import time; time.sleep(1000)"), "", 12*time.Second)
			// gloo gives up before its time limit and reports this.
			if failure := of(got, 0); failure == nil || failure.Kind != facts.SmokeError || failure.Call != "torch.distributed.all_reduce" {
				t.Errorf("rank that waits: %+v", got)
			}
			if failure := of(got, 1); failure == nil || failure.Kind != facts.SmokeHang || failure.Call != "torch.distributed.all_reduce" {
				t.Errorf("rank that hangs: %+v", got)
			}
		})
		t.Run("refused", func(t *testing.T) {
			got := reduce(t, smokers(t, r, ""), "127.0.0.1:1", 3*patience) // torch tries again until its time limit, and then names its stack frames one by one
			if failure := of(got, 1); failure == nil || failure.Kind != facts.SmokeError || failure.Call != "torch.distributed.TCPStore" || !strings.Contains(failure.Message, "127.0.0.1, 1") {
				t.Errorf("rank that is refused: %+v", got)
			}
			if of(got, 0) == nil {
				t.Errorf("rank that waits for it: %+v", got)
			}
		})
	})
}
