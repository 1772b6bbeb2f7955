// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/probe/machine"
	"preflight/probe/nvml"
)

const (
	// nvmlQuiet is how long the driver may take for one call. A GPU that nobody
	// uses and that is not in persistence mode takes some seconds to wake up.
	nvmlQuiet = 10 * time.Second
	// nvmlEnding is how long a killed child may take to be gone. One that is still
	// there sleeps in the kernel, where no signal reaches it.
	nvmlEnding = 500 * time.Millisecond
)

// CollectNVML asks NVIDIA's driver through NVML, in a child process, if the machine shows
// anything of NVIDIA. If it shows only AMD GPUs, CollectNVML reads /sys.
// What a sick driver answered before it failed is kept.
func CollectNVML(ctx context.Context, o machine.Options) (*facts.NVML, error) {
	if !showsNVIDIA(o) {
		if showsAMD(o) {
			return amdCards(o), nil
		}
		return &facts.NVML{Cards: []facts.Card{}}, nil
	}
	seen, err := askNVML(ctx, nvmlChild().Stream, nvmlQuiet)
	if err != nil {
		return nil, err
	}
	seen.Asked = true
	nameProcesses(o, seen.Cards)
	addressUnreachable(o, seen.Cards)
	seen.Unshown = hiddenNodes(o, seen)
	return seen, nil
}

// nvmlChild is this program anew, called as we were; `agent nvml` is what it has
// of package probe/nvml. That binds NVML's symbols when they are called, which
// LD_BIND_NOW would end before it begins.
func nvmlChild() hostsys.Child {
	ours := slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "LD_BIND_NOW=") })
	return hostsys.Child{
		Path: "/proc/self/exe", Name: os.Args[0], Args: []string{"agent", "nvml"},
		Env: append(ours, "GOMAXPROCS=2", "GOGC=off"),
	}
}

// askNVML makes facts of what a child says of the driver, and ends it when
// nothing comes for too long. ask is [hostsys.Child.Stream]: it runs until the child has
// ended or the context has.
//
// An error is no word about the driver: we were interrupted, could not start the
// child, had too little time for it, or were built without cgo.
func askNVML(ctx context.Context, ask func(context.Context, io.Writer) (stderr string, err error), quiet time.Duration) (*facts.NVML, error) {
	w := hostsys.BeginWait()
	report, end := listen(ctx, ask, quiet)
	silent := time.Since(report.last).Round(100 * time.Millisecond)
	switch {
	case report.unloaded == nvml.WithoutCgo: // whether the library is there is not known
		return nil, errors.New(nvml.WithoutCgo)
	case report.unloaded != "":
		report.seen.Failure = &facts.NVMLFailure{Kind: facts.FailureNoLibrary, Text: report.unloaded}
	case report.done:
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, ctx.Err()
	case report.at.Call == "" && end.killed:
		return nil, fmt.Errorf("cannot ask the driver: preflight's process for it did not start within %s", silent)
	case report.at.Call == "":
		return nil, fmt.Errorf("cannot ask the driver: preflight's process for it did not start: %s", crashMessage(end.stderr, end.err))
	case !end.killed:
		report.fail(facts.FailureCrashed, "the process that asked "+report.subject()+" ended: "+crashMessage(end.stderr, end.err))
	case silent < quiet/2: // it may yet have answered
		return nil, fmt.Errorf("the driver was in %s when the node's time limit ended: run again with a longer --timeout to learn whether it hangs", report.call())
	case w.Busy() > 0:
		return nil, fmt.Errorf("the driver was in %s for %s, but this machine was busy: run preflight again with less load to learn whether it hangs", report.call(), silent)
	case end.stuck:
		report.fail(facts.FailureStuck, fmt.Sprintf("%s did not answer within %s, and the process that asked is stuck in the kernel, where no signal reaches it", report.subject(), silent))
	default:
		report.fail(facts.FailureHung, fmt.Sprintf("%s did not answer within %s", report.subject(), silent))
	}
	return &report.seen, nil
}

// ending is how a child came to its end: by itself, killed by us, or killed and not gone.
type ending struct {
	stderr        string
	err           error
	killed, stuck bool
}

// listen takes a child's lines until it ends, is silent for too long, or the time
// that ctx leaves is over.
func listen(ctx context.Context, ask func(context.Context, io.Writer) (string, error), quiet time.Duration) (*childReport, ending) {
	asking, stop := machine.Ahead(ctx, 2*nvmlEnding) // what is reported by then has to be handed in before its end
	defer stop()
	asking, hush := context.WithCancel(asking)
	silence := time.AfterFunc(quiet, hush)
	defer silence.Stop()
	talk := newChildOutput(func(done bool) {
		if done {
			// A driver may take long to close its GPUs, and nobody has to wait for that.
			silence.Reset(hostsys.Grace)
		} else {
			silence.Reset(quiet)
		}
	})

	ended := make(chan ending, 1) // room for one, so that a child nobody awaits can still end
	go func() {
		stderr, err := ask(asking, talk)
		ended <- ending{stderr: stderr, err: err}
	}()
	var end ending
	select {
	case end = <-ended:
	case <-asking.Done():
		select {
		case end = <-ended:
		case <-time.After(nvmlEnding):
			end.stuck = true
		}
	}
	end.killed = asking.Err() != nil
	return talk.close(), end
}
