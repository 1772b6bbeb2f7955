// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package direct

/*
#include <stdlib.h>
#include "libraries.h"

static ncclResult_t sum(CUdeviceptr from, CUdeviceptr to, size_t count, ncclComm_t comm, CUstream stream)
{
	return ncclAllReduce((const void *)from, (void *)to, count, ncclFloat32, ncclSum, comm, stream);
}
*/
import "C"

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"preflight/drill/smoke"
	"preflight/facts"
)

// nccl is an NCCL communicator.
type nccl struct {
	// comm points to the communicator in C's memory. A call that continues in the background writes
	// there (NCCL 2.14, src/init.cc, ncclCommInitRankFunc). comm is nil if there is no
	// communicator, and while one is being destroyed.
	comm atomic.Pointer[C.ncclComm_t]
	// limit is how long an order may take. until is when that time ends.
	limit time.Duration
	until time.Time
}

const (
	// timed is the maximum number of reductions that are timed in a row. timing is how long they
	// should take together. A single reduction takes a second on a link with 1 Gbit/s.
	timed, timing = 10, 500 * time.Millisecond
	// shared is how many copies of a value the ranks share when they agree on it.
	shared = 1024
	// early is how long before its deadline a rank gives up. aborting is how much of that time the
	// abort may take; the rest is for reporting.
	early    = 1500 * time.Millisecond
	aborting = time.Second
	// polling is the interval at which background work is polled. stuck is how much later the
	// process gives up on a thread that is blocked inside a call.
	polling = 50 * time.Microsecond
	stuck   = 200 * time.Millisecond
	// exact is the largest number up to which float32 represents every integer exactly.
	exact = 1 << 24
)

// meet creates the ID of a group. It starts the thread at which the ranks meet. The thread ends
// with this process.
func (r *rank) meet() smoke.Done {
	var id C.ncclUniqueId
	r.call("ncclGetUniqueId", func() C.ncclResult_t { return C.ncclGetUniqueId(&id) })
	return smoke.Done{Meet: hex.EncodeToString(C.GoBytes(unsafe.Pointer(&id), C.int(unsafe.Sizeof(id))))}
}

// reduce joins a group, sums rank+1 over it and leaves it. A rank that finds a wrong result
// continues to the end, because otherwise all other ranks would wait for it.
func (r *rank) reduce(order smoke.Order) smoke.Done {
	within := time.Duration(order.Seconds * float64(time.Second))
	r.limit = max(within-early, within/2)
	r.until = time.Now().Add(r.limit)
	patience := time.AfterFunc(r.limit+stuck, func() {
		if call, mine := r.last(); mine {
			r.end(r.hang(call))
		}
	})
	defer patience.Stop()

	want := float64(order.Size) * float64(order.Size+1) / 2
	if want > exact {
		r.failure = absent("ncclAllReduce", fmt.Sprintf("the sum over %d ranks has no exact answer in float32", order.Size))
		return smoke.Done{}
	}
	count := max(order.Bytes/4, 1)
	from, to, answer := r.memory(4*count), r.memory(4*count), pinned[uint32](r, count)
	r.fill(from, float32(order.Rank+1), count)
	r.join(order)

	var found *facts.SmokeFailure
	look := func() {
		r.fetch(answer, to)
		for i, bits := range answer {
			if got := float64(math.Float32frombits(bits)); got != want && r.failure == nil && found == nil {
				found = wrong("ncclAllReduce", i, got, want, fmt.Sprintf("element %d of %d is %v, not %v", i, count, got, want))
			}
		}
	}
	var begun time.Time
	var took time.Duration
	for range 2 { // the second reduction makes all ranks begin together
		r.spoil(to, count)
		begun = time.Now()
		r.allReduce(from, to, count)
		r.settle(true)
		took = time.Since(begun)
		look()
	}
	times := r.agree(took, order.Size, from, to, answer)
	r.fill(from, float32(order.Rank+1), count)
	begun = time.Now()
	for range times {
		r.allReduce(from, to, count)
	}
	r.settle(true)
	seconds := time.Since(begun).Seconds()
	look()
	r.leaveGroup()
	if found != nil { // after a wrong result, nothing else is more informative
		r.failure = found
	}
	r.free(from)
	r.free(to)
	unpin(r, answer)
	others := float64(order.Size-1) / float64(order.Size)
	return smoke.Done{BitRate: 2 * others * float64(4*count) * 8 * float64(times) / seconds}
}

// agree determines how many reductions to time, which must be the same on all ranks. The ranks
// share how long the last reduction took, in whole microseconds. Even if a card computes wrong
// sums, most sums are correct.
func (r *rank) agree(took time.Duration, size int, from, to C.CUdeviceptr, sums []uint32) int {
	sums = sums[:min(shared, len(sums))]
	r.fill(from, float32(min(took.Microseconds(), int64(exact/size))), len(sums))
	r.spoil(to, len(sums))
	r.allReduce(from, to, len(sums))
	r.settle(true)
	r.fetch(sums, to)
	if r.failure != nil {
		return 1
	}
	slices.Sort(sums) // these bits sort in the same order as the floats, because all have the same sign
	mean := float64(math.Float32frombits(sums[len(sums)/2])) / float64(size)
	return int(min(max(float64(timing.Microseconds())/mean, 1), timed))
}

func (r *rank) fill(memory C.CUdeviceptr, value float32, count int) {
	r.cuda("cuMemsetD32Async", func() C.CUresult {
		return C.cuMemsetD32Async(memory, C.uint(math.Float32bits(value)), C.size_t(count), r.stream)
	})
}

// spoil fills memory with NaN, so that memory that was never written is not read as a result.
func (r *rank) spoil(memory C.CUdeviceptr, count int) {
	r.fill(memory, math.Float32frombits(math.MaxUint32), count)
}

// join makes this process a rank of a group. It joins in the background if this NCCL supports that.
func (r *rank) join(order smoke.Order) {
	id, ok := identifier(order.Meet)
	if !ok && r.failure == nil {
		r.failure = &facts.SmokeFailure{Kind: facts.SmokeError, Message: fmt.Sprintf("%q is not an NCCL unique ID", order.Meet)}
	}
	if r.failure != nil {
		return
	}
	comm := (*C.ncclComm_t)(C.calloc(1, C.sizeof_ncclComm_t))
	r.comm.Store(comm)
	if C.found_ncclCommInitRankConfig == nil { // NCCL before 2.14
		r.call("ncclCommInitRank", func() C.ncclResult_t { return C.ncclCommInitRank(comm, C.int(order.Size), id, C.int(order.Rank)) })
		return
	}
	config := C.ncclConfig_t{size: C.sizeof_ncclConfig_t, magic: C.NCCL_API_MAGIC, version: 21400, blocking: 0}
	r.call("ncclCommInitRankConfig", func() C.ncclResult_t {
		return C.ncclCommInitRankConfig(comm, C.int(order.Size), id, C.int(order.Rank), &config)
	})
	r.settle(false)
}

func identifier(text string) (id C.ncclUniqueId, ok bool) {
	bytes, err := hex.DecodeString(text)
	if err != nil || len(bytes) != len(id.internal) {
		return id, false
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&id)), len(bytes)), bytes)
	return id, true
}

func (r *rank) allReduce(from, to C.CUdeviceptr, count int) {
	r.call("ncclAllReduce", func() C.ncclResult_t {
		return C.sum(from, to, C.size_t(count), *r.comm.Load(), r.stream)
	})
}

// settle waits for background work. If streaming is set, it also waits for the stream. While a
// kernel waits for other ranks, only NCCL knows that these ranks are gone.
func (r *rank) settle(streaming bool) {
	for r.failure == nil {
		var state C.ncclResult_t
		result := C.ncclCommGetAsyncError(*r.comm.Load(), &state)
		running := state == C.ncclInProgress
		switch {
		case result != C.ncclSuccess:
			r.broke(result)
			return
		case !running && state != C.ncclSuccess:
			r.broke(state)
			return
		case !running && streaming:
			switch result := C.cuStreamQuery(r.stream); result {
			case C.CUDA_SUCCESS:
			case C.CUDA_ERROR_NOT_READY:
				running = true
			default:
				r.fail(r.words.call, result)
				return
			}
		}
		switch {
		case !running:
			return
		case time.Now().After(r.until):
			hang := r.hang(r.words.call)
			r.failure = &hang
		}
		time.Sleep(polling)
	}
}

// leaveGroup destroys the communicator of a group whose ranks are all well.
func (r *rank) leaveGroup() {
	if C.found_ncclCommFinalize != nil {
		r.call("ncclCommFinalize", func() C.ncclResult_t { return C.ncclCommFinalize(*r.comm.Load()) })
		r.settle(false)
	}
	if r.failure == nil {
		comm := r.comm.Swap(nil)
		r.call("ncclCommDestroy", func() C.ncclResult_t { return C.ncclCommDestroy(*comm) })
		C.free(unsafe.Pointer(comm))
	}
}

// end makes the library abort, reports the failure, and thereby ends the process. The abort runs in
// a separate thread. It waits for the initialising thread (NCCL 2.30, src/init.cc, ncclCommAbort),
// so it may hang too.
func (r *rank) end(failure facts.SmokeFailure) {
	aborted := make(chan struct{})
	go func() {
		defer close(aborted)
		if comm := r.comm.Load(); comm != nil && *comm != nil {
			r.write(smoke.Word{At: "ncclCommAbort"})
			C.ncclCommAbort(*comm)
		}
	}()
	select {
	case <-aborted:
	case <-time.After(aborting):
		failure.Message += "; ncclCommAbort does not return either"
	}
	r.write(smoke.Word{Failed: &failure})
	r.finished <- nil
}

func (r *rank) hang(call string) facts.SmokeFailure {
	return facts.SmokeFailure{Kind: facts.SmokeHang, Call: call, Message: fmt.Sprintf("it did not finish within %.1f s%s", r.limit.Seconds(), r.lastError())}
}

// call is [rank.cuda] for NCCL. For NCCL, continuing in the background is not a failure.
func (r *rank) call(name string, call func() C.ncclResult_t) {
	if r.failure != nil {
		return
	}
	r.announce(name)
	if result := call(); result != C.ncclSuccess && result != C.ncclInProgress {
		r.broke(result)
	}
}

// broke records that the last announced call failed.
func (r *rank) broke(result C.ncclResult_t) {
	r.failure = &facts.SmokeFailure{Kind: facts.SmokeError, Call: r.words.call, Message: C.GoString(C.ncclGetErrorString(result)) + r.lastError()}
}

// lastError returns NCCL's own text about its last error, in a form that can be appended to a
// message.
func (r *rank) lastError() string {
	if C.found_ncclGetLastError == nil {
		return ""
	}
	if text := strings.TrimSpace(C.GoString(C.ncclGetLastError(nil))); text != "" {
		return ": " + text
	}
	return ""
}
