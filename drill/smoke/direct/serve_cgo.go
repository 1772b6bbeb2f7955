// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package direct

/*
#include <signal.h>

static void crash_plainly(void)
{
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

	for (int i = 0; i < (int)(sizeof crashes / sizeof *crashes); i++)
		signal(crashes[i], SIG_DFL);
}
*/
import "C"

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"

	"preflight/drill/smoke"
)

// Serve is a rank with the GPU of that number, of those that CUDA_VISIBLE_DEVICES shows it, and
// with that libnccl, "" for the one that the loader finds by its name. It says how loading
// them went, and then does what its standard input orders until that ends. What has failed
// at talking ends it too: nothing is known of the state that it left behind.
//
// It comes back while a library may still be in a call, so the process is to end then, and to
// leave out what libraries would do at its end.
func Serve(device int, library string) error {
	// Where a library crashes, the signal tells it. Go's runtime would tell of its registers instead, and exit.
	C.crash_plainly()
	out, err := aside()
	if err != nil {
		return err
	}
	// Both may stand in nccl.conf as well, which overwrites nothing that is set (NCCL 2.30,
	// src/misc/param.cc, setEnvFile). With the first the ranks would meet somewhere else than
	// at the id that they are given (src/bootstrap.cc); with the second no call could be
	// given up (src/init.cc, envConfigOverride).
	os.Unsetenv("NCCL_COMM_ID")
	os.Setenv("NCCL_COMM_BLOCKING", "0")

	orders, over := make(chan smoke.Order), make(chan error, 2)
	r := &rank{words: words{out: out}, over: over}
	go r.work(device, library, orders)
	go func() { over <- read(os.Stdin, orders) }()
	return <-over
}

// aside has our words go where standard output went, and what the libraries print there to
// standard error: NCCL's log goes to the former by default.
func aside() (*os.File, error) {
	fd, err := syscall.Dup(syscall.Stdout)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "words"), syscall.Dup3(syscall.Stderr, syscall.Stdout, 0)
}

func read(in io.Reader, orders chan<- smoke.Order) error {
	for lines := json.NewDecoder(in); ; {
		var order smoke.Order
		if err := lines.Decode(&order); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("malformed order: %w", err)
		}
		orders <- order
	}
}

// rank is the process: one GPU, one libnccl, one order after another.
type rank struct {
	words
	over chan<- error // has room: what there was to say is said
	gpu
	nccl
}

// work makes all calls on one thread, whose current context is the GPU's.
func (r *rank) work(device int, library string, orders <-chan smoke.Order) {
	runtime.LockOSThread()
	r.answer(r.load(device, library))
	if r.failure != nil {
		r.over <- nil
		return
	}
	for order := range orders {
		r.failure = nil
		switch order.Do {
		case smoke.DoCompute:
			r.answer(r.compute(order))
		case smoke.DoMeet:
			r.answer(r.meet())
		case smoke.DoReduce:
			if done := r.reduce(order); r.failure == nil {
				r.done(done)
			} else if _, mine := r.last(); mine {
				r.end(*r.failure)
			}
		default:
			r.over <- fmt.Errorf("a rank does not understand the order %q", order.Do)
		}
	}
}

func (r *rank) answer(done smoke.Done) {
	if r.failure != nil {
		r.failed(*r.failure)
		return
	}
	r.done(done)
}
