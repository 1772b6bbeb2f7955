// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/probe/nvml"
	"preflight/testhosts/probetest"
)

// says returns a child that writes these texts and ends.
func says(texts ...string) func(context.Context, io.Writer) (string, error) {
	return func(_ context.Context, out io.Writer) (string, error) {
		for _, text := range texts {
			if _, err := io.WriteString(out, text); err != nil {
				return "", err
			}
		}
		return "", nil
	}
}

const (
	someSystem = `{"system":{"driver":"550.54.15"}}` + "\n"
	someGPU    = `{"seen":{"index":0,"name":"NVIDIA L4"}}` + "\n"
	someCall   = `{"call":"nvmlDeviceGetUUID","card":1}` + "\n"
	theEnd     = `{"done":true}` + "\n"
)

func TestWhatTheChildSays(t *testing.T) {
	crash := &facts.NVMLFailure{Kind: facts.FailureCrashed, Call: "nvmlDeviceGetUUID", Text: "the process that asked GPU 1 ended: it was ended and printed nothing"}
	l4 := facts.Card{Name: "NVIDIA L4"}
	for name, test := range map[string]struct {
		texts []string
		want  facts.NVML
	}{
		"all": {
			[]string{someSystem, someGPU, `{"topology":[["X"]]}` + "\n", `{"peers":[["X"]]}` + "\n", theEnd},
			facts.NVML{Source: "nvml", Driver: "550.54.15", Cards: []facts.Card{l4}, Topology: [][]string{{"X"}}, Peers: [][]string{{"X"}}},
		},
		"in pieces, amid noise": {
			[]string{"NVRM: a library that prints\n{\"sys", `tem":{"driver":"550.54.15"}}`, "\nnull\n[1]\nhalf a line" + "\n" + someGPU, theEnd[:5], theEnd[5:]},
			facts.NVML{Source: "nvml", Driver: "550.54.15", Cards: []facts.Card{l4}},
		},
		"GPUs in any order, and more than once": {
			[]string{`{"seen":{"index":2}}` + "\n", someGPU, `{"seen":{"index":2,"uuid":"GPU-2"}}` + "\n", `{"seen":{"index":-1}}` + "\n", `{"seen":{"index":99999}}` + "\n", theEnd},
			facts.NVML{Cards: []facts.Card{l4, {Index: 2, UUID: "GPU-2"}}},
		},
		"refused": {
			[]string{someSystem, `{"failure":{"kind":"mismatch","code":18,"text":"no"}}` + "\n", theEnd},
			facts.NVML{Source: "nvml", Driver: "550.54.15", Cards: []facts.Card{}, Failure: &facts.NVMLFailure{Kind: facts.FailureMismatch, Code: 18, Text: "no"}},
		},
		"ended in the middle": {
			[]string{someSystem, someGPU, `{"seen":{"index":1,"address":"0000:4e:00.0"}}` + "\n", someCall},
			facts.NVML{Source: "nvml", Driver: "550.54.15", Cards: []facts.Card{l4, {Index: 1, Address: "0000:4e:00.0", Failure: crash}}, Failure: crash},
		},
	} {
		t.Run(name, func(t *testing.T) {
			seen, err := askNVML(t.Context(), says(test.texts...), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&test.want, seen); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// silent returns a child that writes these texts, and then nothing until it is ended.
func silent(texts ...string) func(context.Context, io.Writer) (string, error) {
	return func(ctx context.Context, out io.Writer) (string, error) {
		_, _ = says(texts...)(ctx, out)
		<-ctx.Done()
		return "", ctx.Err()
	}
}

func TestSilence(t *testing.T) {
	for name, test := range map[string]struct {
		deadline time.Duration // deadline of the section, 0 for none
		ask      func(context.Context, io.Writer) (string, error)
		kind     string
		text     string
		err      string
		after    time.Duration
	}{
		"of one call": {
			ask: silent(someCall), kind: facts.FailureHung, text: "GPU 1 did not answer within 10s", after: 10 * time.Second,
		},
		"of the library": {
			ask:  silent(`{"call":"nvmlInit_v2"}` + "\n"),
			kind: facts.FailureHung, text: "the driver did not answer within 10s", after: 10 * time.Second,
		},
		"of our own": {
			ask: silent(), err: "cannot ask the driver: preflight's process for it did not start within 10s", after: 10 * time.Second,
		},
		"until the section's time is over": {
			deadline: 8 * time.Second, ask: silent(someCall),
			kind: facts.FailureHung, text: "GPU 1 did not answer within 7s", after: 7 * time.Second,
		},
		"too short to blame the driver": {
			deadline: 3 * time.Second, ask: silent(someCall),
			err: "the driver was in nvmlDeviceGetUUID of GPU 1 when the node's time limit ended: run again with a longer --timeout to learn whether it hangs", after: 2 * time.Second,
		},
		"slow, but never silent for long": {
			ask: func(_ context.Context, out io.Writer) (string, error) {
				for range 5 {
					time.Sleep(9 * time.Second)
					_, _ = io.WriteString(out, someCall)
				}
				return says(theEnd)(t.Context(), out)
			},
			after: 45 * time.Second,
		},
		"after the last line": {
			ask: silent(theEnd), after: hostsys.Grace,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.deadline > 0 {
					limited, cancel := context.WithTimeout(ctx, test.deadline)
					defer cancel()
					ctx = limited
				}
				start := time.Now()
				seen, err := askNVML(ctx, test.ask, nvmlQuiet)
				if took := time.Since(start); took != test.after {
					t.Errorf("took %s, want %s", took, test.after)
				}
				var failure facts.NVMLFailure
				if seen != nil && seen.Failure != nil {
					failure = *seen.Failure
				}
				if failure.Kind != test.kind || failure.Text != test.text || errorText(err) != test.err {
					t.Errorf("failure %+v, error %v; want %s, %q and %q", failure, err, test.kind, test.text, test.err)
				}
			})
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestChildThatCannotBeKilledIsNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		stuck := func(_ context.Context, out io.Writer) (string, error) {
			_, err := io.WriteString(out, someGPU+someCall)
			<-release
			_, _ = io.WriteString(out, someSystem) // nothing reads this output any more
			return "", err
		}
		start := time.Now()
		seen, err := askNVML(t.Context(), stuck, nvmlQuiet)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != nvmlQuiet+nvmlEnding {
			t.Errorf("took %s, want %s", took, nvmlQuiet+nvmlEnding)
		}
		close(release)
		synctest.Wait()
		failure := &facts.NVMLFailure{
			Kind: facts.FailureStuck, Call: "nvmlDeviceGetUUID",
			Text: "GPU 1 did not answer within 10.5s, and the process that asked is stuck in the kernel, where no signal reaches it",
		}
		want := &facts.NVML{Cards: []facts.Card{{Name: "NVIDIA L4"}, {Index: 1, Failure: failure}}, Failure: failure}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestNoWordAboutTheDriver(t *testing.T) {
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if seen, err := askNVML(ctx, silent(someCall), time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v, error %v; want %v", seen, err, context.Canceled)
		}
	})
	for name, ask := range map[string]hostsys.Child{
		"not started":              {Path: filepath.Join(t.TempDir(), "absent")},
		"ended before it began":    {Path: probetest.Script(t, "unbound", "echo us: symbol lookup error: us: undefined symbol: nvmlInit >&2; exit 127")},
		"started, and not a child": {Path: probetest.Script(t, "other", "exit 0")},
	} {
		t.Run(name, func(t *testing.T) {
			if seen, err := askNVML(t.Context(), ask.Stream, time.Hour); err == nil || !strings.HasPrefix(err.Error(), "cannot ask the driver: preflight's process for it did not start: ") {
				t.Errorf("%+v, error %v; want one that does not blame the driver", seen, err)
			}
		})
	}
}

func TestCrashWords(t *testing.T) {
	_, _, exit := hostsys.Child{Path: probetest.Script(t, "fails", "exit 3")}.Run(t.Context())
	for stderr, want := range map[string]string{
		"SIGSEGV: segmentation violation\nPC=0x1\n\ngoroutine 1:\nrip 0x1\n":                      "SIGSEGV: segmentation violation",
		"warning\nfatal error: unexpected signal\n[signal SIGSEGV]\n":                             "fatal error: unexpected signal",
		"panic: index out of range\n\ngoroutine 1\n":                                              "panic: index out of range",
		"/proc/self/exe: symbol lookup error: /proc/self/exe: undefined symbol: nvmlDeviceX\nend": "symbol lookup error: /proc/self/exe: undefined symbol: nvmlDeviceX",
		"out of luck\n": "out of luck",
		"":              "ended with exit status 3 and said nothing",
	} {
		if got := crashMessage(stderr, exit); got != want {
			t.Errorf("crashWords(%q) = %q, want %q", stderr, got, want)
		}
	}
}

func TestUnloaded(t *testing.T) {
	const absent = "libnvidia-ml.so.1: cannot open shared object file"
	want := &facts.NVML{Cards: []facts.Card{}, Failure: &facts.NVMLFailure{Kind: facts.FailureNoLibrary, Text: absent}}
	seen, err := askNVML(t.Context(), says(`{"unloaded":"`+absent+`"}`+"\n", theEnd), time.Hour)
	if diff := cmp.Diff(want, seen); diff != "" || err != nil {
		t.Errorf("no library: %v (-want +got):\n%s", err, diff)
	}
	seen, err = askNVML(t.Context(), says(`{"unloaded":"`+nvml.WithoutCgo+`"}`+"\n", theEnd), time.Hour)
	if seen != nil || errorText(err) != nvml.WithoutCgo {
		t.Errorf("without cgo: %+v, error %v; want only the error %q", seen, err, nvml.WithoutCgo)
	}
}

func TestLineWithoutEndIsDropped(t *testing.T) {
	talk := newChildOutput(func(bool) {})
	for range 3 {
		if _, err := talk.Write(make([]byte, maxLine)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := talk.Write([]byte("\n" + theEnd)); err != nil || !talk.close().done {
		t.Errorf("the line after it is not heard: %v", err)
	}
}
