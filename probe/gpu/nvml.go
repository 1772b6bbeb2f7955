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
	// nvmlQuiet is the time limit for one call to the driver. An idle GPU without persistence mode
	// takes some seconds to wake up.
	nvmlQuiet = 10 * time.Second
	// nvmlEnding is how long a killed child may take to end. A child that still exists after that
	// sleeps in the kernel, where signals have no effect.
	nvmlEnding = 500 * time.Millisecond
)

// CollectNVML asks NVIDIA's driver through NVML, in a child process, if the machine shows anything
// from NVIDIA. If the machine shows only AMD GPUs, CollectNVML reads /sys. If a driver fails,
// CollectNVML keeps what the driver answered before.
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

// nvmlChild returns the command of the child, which is this program again, with the same name. The
// arguments `agent nvml` select the code in package probe/nvml. NVML's symbols are bound when they
// are called. With LD_BIND_NOW the child would fail at its start.
func nvmlChild() hostsys.Child {
	ours := slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "LD_BIND_NOW=") })
	return hostsys.Child{
		Path: "/proc/self/exe", Name: os.Args[0], Args: []string{"agent", "nvml"},
		Env: append(ours, "GOMAXPROCS=2", "GOGC=off"),
	}
}

// askNVML converts a child's lines into facts, and ends the child if it prints nothing for too
// long. ask is [hostsys.Child.Stream]: it runs until the child or the context has ended.
//
// An error says nothing about the driver. The run was interrupted, the child did not start or had
// too little time, or this build has no cgo.
func askNVML(ctx context.Context, ask func(context.Context, io.Writer) (stderr string, err error), quiet time.Duration) (*facts.NVML, error) {
	w := hostsys.BeginWait()
	report, end := listen(ctx, ask, quiet)
	silent := time.Since(report.last).Round(100 * time.Millisecond)
	switch {
	case report.unloaded == nvml.WithoutCgo: // it is unknown whether the library exists
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
	case silent < quiet/2: // the child might still have answered
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

// ending says how a child ended: by itself, killed by preflight, or killed but still there.
type ending struct {
	stderr        string
	err           error
	killed, stuck bool
}

// listen reads a child's lines. It stops when the child ends, prints nothing for too long, or ctx
// ends.
func listen(ctx context.Context, ask func(context.Context, io.Writer) (string, error), quiet time.Duration) (*childReport, ending) {
	asking, stop := machine.Ahead(ctx, 2*nvmlEnding) // leaves enough time to return the report before ctx ends
	defer stop()
	asking, hush := context.WithCancel(asking)
	silence := time.AfterFunc(quiet, hush)
	defer silence.Stop()
	talk := newChildOutput(func(done bool) {
		if done {
			// A driver may take long to close its GPUs. preflight does not wait for that.
			silence.Reset(hostsys.Grace)
		} else {
			silence.Reset(quiet)
		}
	})

	ended := make(chan ending, 1) // buffered, so that a child can end although no goroutine waits for it
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
