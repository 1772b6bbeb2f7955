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

// Serve is a rank with the GPU of that number, among those that CUDA_VISIBLE_DEVICES shows, and
// with that libnccl, "" for the one that the loader finds by name. It reports the result of
// loading, and then carries out the orders on its standard input until that ends. A communication
// failure ends it too, because the state that the failure left behind is unknown.
//
// It may return while a library is still in a call. The process must then end without running the
// libraries' exit handlers.
func Serve(device int, library string) error {
	// If a library crashes, the signal must show it. Go's runtime would print registers instead,
	// and exit.
	C.crash_plainly()
	out, err := aside()
	if err != nil {
		return err
	}
	// Both may also be in nccl.conf, which overrides nothing that is set (NCCL 2.30,
	// src/misc/param.cc, setEnvFile). With the first, the ranks would meet at another place than
	// the ID that they are given (src/bootstrap.cc). With the second, no call could be given up
	// (src/init.cc, envConfigOverride).
	os.Unsetenv("NCCL_COMM_ID")
	os.Setenv("NCCL_COMM_BLOCKING", "0")

	orders, over := make(chan smoke.Order), make(chan error, 2)
	r := &rank{words: words{out: out}, finished: over}
	go r.work(device, library, orders)
	go func() { over <- read(os.Stdin, orders) }()
	return <-over
}

// aside keeps the original standard output for our words, and redirects what the libraries print
// there to standard error: NCCL's log goes to standard output by default.
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
	finished chan<- error // buffered; the last word has been written
	gpu
	nccl
}

// work makes all calls on one thread, whose current context is the GPU's.
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
