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

// Serve runs a rank. device is the number of its GPU among those that CUDA_VISIBLE_DEVICES shows.
// library is the libnccl to load, or "" for the one that the loader finds by name. Serve reports
// the result of loading, and then carries out the orders on its standard input until that ends. A
// communication failure also ends Serve, because the state after the failure is unknown.
//
// Serve may return while a library is still in a call. The process must then end without running
// the libraries' exit handlers.
func Serve(device int, library string) error {
	// If a library crashes, the process must end with the signal. Otherwise Go's runtime would
	// print registers and exit.
	C.crash_plainly()
	out, err := aside()
	if err != nil {
		return err
	}
	// nccl.conf may set both variables too, but overrides nothing that is set (NCCL 2.30,
	// src/misc/param.cc, setEnvFile). With the first variable, the ranks would meet at another
	// place than their ID says (src/bootstrap.cc). With the second, no call could be given up
	// (src/init.cc, envConfigOverride).
	os.Unsetenv("NCCL_COMM_ID")
	os.Setenv("NCCL_COMM_BLOCKING", "0")

	orders, over := make(chan smoke.Order), make(chan error, 2)
	r := &rank{words: words{out: out}, finished: over}
	go r.work(device, library, orders)
	go func() { over <- read(os.Stdin, orders) }()
	return <-over
}

// aside keeps the original standard output for the rank's words. It redirects what the libraries
// print there to standard error, because NCCL's log goes to standard output by default.
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

// rank is this process, with one GPU and one libnccl. It carries out one order after another.
type rank struct {
	words
	finished chan<- error // buffered; receives a value when the last word has been written
	gpu
	nccl
}

// work makes all calls on one thread, whose current context is the GPU's context.
func (r *rank) work(device int, library string, orders <-chan smoke.Order) {
	runtime.LockOSThread()
	r.answer(r.load(device, library))
	if r.failure != nil {
		r.finished <- nil
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
			r.finished <- fmt.Errorf("a rank does not understand the order %q", order.Do)
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
