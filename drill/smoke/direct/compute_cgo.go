// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package direct

/*
#include <stdlib.h>
#include "libraries.h"

static CUresult churn(CUfunction kernel, unsigned int blocks, unsigned int threads, CUstream stream,
                      CUdeviceptr buffer, unsigned int rounds, unsigned int times, unsigned int plus)
{
	void *parameters[] = {&buffer, &rounds, &times, &plus};

	return cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, NULL);
}
*/
import "C"

import (
	_ "embed"
	"fmt"
	"math"
	"time"
	"unsafe"

	"preflight/drill/smoke"
	"preflight/facts"
)

const (
	// size is the size of each buffer, in bytes.
	size = 64 << 20
	// copying is how long copies of one kind are repeated. The copies run in batches, so that
	// waiting for their end takes no noticeable time.
	copying = 100 * time.Millisecond
	batch   = 8
)

// compute copies a pattern to the GPU, within it and back, and then makes the GPU compute on it. It
// verifies every word after each step. After a failure it does not free the memory.
func (r *rank) compute(order smoke.Order) (done smoke.Done) {
	here, there := r.memory(size), r.memory(size)
	up, down := pinned[uint32](r, size/4), pinned[uint32](r, size/4)
	for i := range up {
		up[i] = pattern(i)
	}
	done.HostToDevice = r.copies("cuMemcpyHtoDAsync_v2", func() C.CUresult {
		return C.cuMemcpyHtoDAsync_v2(there, unsafe.Pointer(unsafe.SliceData(up)), size, r.stream)
	})
	done.DeviceToDevice = r.copies("cuMemcpyDtoDAsync_v2", func() C.CUresult {
		return C.cuMemcpyDtoDAsync_v2(here, there, size, r.stream)
	})
	done.DeviceToHost = r.copies("cuMemcpyDtoHAsync_v2", func() C.CUresult { return r.back(down, there) })
	r.compare(down, affine{times: 1}, "cuMemcpyDtoHAsync_v2")
	r.fetch(down, here)
	r.compare(down, affine{times: 1}, "cuMemcpyDtoDAsync_v2")

	kernel := r.compile()
	launch := func() {
		r.cuda("cuLaunchKernel", func() C.CUresult {
			return C.churn(kernel, size/4/threads, threads, r.stream, here, rounds, C.uint(step.times), C.uint(step.plus))
		})
		r.synchronize()
	}
	launch()
	r.fetch(down, here)
	r.compare(down, step.repeated(rounds), "cuLaunchKernel")

	launches, begun := 0, time.Now()
	for r.failure == nil && time.Since(begun).Seconds() < order.Seconds {
		launch()
		launches++
	}
	done.Rate = float64(launches) * rounds * operations * size / 4 / time.Since(begun).Seconds()
	r.fetch(down, here)
	r.compare(down, step.repeated(rounds*(launches+1)), "cuLaunchKernel")

	r.free(here)
	r.free(there)
	unpin(r, up)
	unpin(r, down)
	return done
}

// compile makes the driver compile the kernel for this GPU.
func (r *rank) compile() (kernel C.CUfunction) {
	text, name := C.CString(source), C.CString(kernelName)
	defer C.free(unsafe.Pointer(text))
	defer C.free(unsafe.Pointer(name))
	var module C.CUmodule
	r.cuda("cuModuleLoadData", func() C.CUresult { return C.cuModuleLoadData(&module, unsafe.Pointer(text)) })
	r.cuda("cuModuleGetFunction", func() C.CUresult { return C.cuModuleGetFunction(&kernel, module, name) })
	return kernel
}

// copies repeats a copy and returns the rate in bits per second. The first copy only warms up.
func (r *rank) copies(name string, call func() C.CUresult) float64 {
	r.cuda(name, call)
	r.synchronize()
	count, begun := 0, time.Now()
	for r.failure == nil && time.Since(begun) < copying {
		for range batch {
			r.cuda(name, call)
		}
		r.synchronize()
		count += batch
	}
	return float64(count) * size * 8 / time.Since(begun).Seconds()
}

func (r *rank) back(to []uint32, from C.CUdeviceptr) C.CUresult {
	return C.cuMemcpyDtoHAsync_v2(unsafe.Pointer(unsafe.SliceData(to)), from, C.size_t(4*len(to)), r.stream)
}

func (r *rank) fetch(to []uint32, from C.CUdeviceptr) {
	r.cuda("cuMemcpyDtoHAsync_v2", func() C.CUresult { return r.back(to, from) })
	r.synchronize()
}

// compare verifies every word. Each word must be the result of applying became to the pattern's
// word.
func (r *rank) compare(words []uint32, became affine, call string) {
	if r.failure != nil {
		return
	}
	for i, got := range words {
		if want := became.apply(pattern(i)); got != want {
			r.failure = wrong(call, i, float64(got), float64(want), fmt.Sprintf("word %d is %#08x, not %#08x", i, got, want))
			return
		}
	}
}

// wrong returns the failure for a result whose element i is wrong.
func wrong(call string, i int, got, want float64, message string) *facts.SmokeFailure {
	element := int64(i)
	failure := &facts.SmokeFailure{Kind: facts.SmokeWrong, Call: call, Message: message, Element: &element, Want: &want}
	if !math.IsNaN(got) && !math.IsInf(got, 0) { // JSON cannot express NaN and infinity
		failure.Got = &got
	}
	return failure
}

// source is the GPU program, as text that the driver compiles for the GPU.
//
//go:embed kernel.ptx
var source string

const (
	kernelName = "churn"
	// rounds is the number of steps of one launch. It is a multiple of the kernel's loop of four.
	// One launch takes about 20 ms on an H100, so that the cost of launching is negligible.
	rounds = 16 << 10
	// operations is the number of operations in one step: two multiplications and two additions.
	operations = 4
	// threads is the number of threads in a block. Each thread has a separate word.
	threads = 256
)

// affine is the function x → times·x + plus, modulo 2³².
type affine struct{ times, plus uint32 }

// step is what the kernel does with each word. It is the generator of Numerical Recipes (Knuth and
// H. W. Lewis). Its factor is odd, so no two words become equal.
var step = affine{1664525, 1013904223}

func (a affine) apply(x uint32) uint32 { return a.times*x + a.plus }

// then returns the function that applies a, then b.
func (a affine) then(b affine) affine { return affine{a.times * b.times, b.apply(a.plus)} }

// repeated returns the function that applies a count times.
func (a affine) repeated(count int) affine {
	all := affine{times: 1}
	for ; count > 0; count >>= 1 {
		if count&1 == 1 {
			all = all.then(a)
		}
		a = a.then(a)
	}
	return all
}

// pattern returns the initial value of a buffer's word i. All words are different, and together
// they use every bit.
func pattern(i int) uint32 { return uint32(i) * 0x9e3779b9 }
