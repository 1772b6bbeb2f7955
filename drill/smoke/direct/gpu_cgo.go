// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package direct

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include "libraries.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	"preflight/drill/smoke"
	"preflight/facts"
)

// gpu is a libcuda device with its primary context. The runtime inside libnccl uses only the
// primary context.
type gpu struct {
	device C.CUdevice
	stream C.CUstream
	// failure is the first failure of an order. After a failure, no call is made.
	failure *facts.SmokeFailure
}

const (
	libcuda = "libcuda.so.1"
	libnccl = "libnccl.so.2"
	// spare is how many bytes of a GPU's memory must be free. If less is free, the GPU is in use.
	// The test itself takes some hundreds of megabytes, including NCCL's buffers.
	spare = 4 << 30
)

// load opens the libraries and the device.
func (r *rank) load(device int, library string) smoke.Done {
	if library == "" {
		library = libnccl
	}
	r.open(libcuda, C.cuda_symbols)
	r.open(library, C.nccl_symbols, C.later_nccl_symbols)

	r.cuda("cuInit", func() C.CUresult { return C.cuInit(0) })
	r.cuda("cuDeviceGet", func() C.CUresult { return C.cuDeviceGet(&r.device, C.int(device)) })
	name := r.textOf("cuDeviceGetName", func(text *C.char, size C.int) C.CUresult { return C.cuDeviceGetName(text, size, r.device) })
	address := r.textOf("cuDeviceGetPCIBusId", func(text *C.char, size C.int) C.CUresult {
		return C.cuDeviceGetPCIBusId(text, size, r.device)
	})
	if r.attribute(C.CU_DEVICE_ATTRIBUTE_MPS_ENABLED) == 1 && r.failure == nil {
		r.failure = absent("cuDeviceGetAttribute", "the GPU is shared through MPS: ending a test process could end other users' work")
	}
	mode := r.attribute(C.CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)
	var context C.CUcontext
	r.cuda("cuDevicePrimaryCtxRetain", func() C.CUresult { return C.cuDevicePrimaryCtxRetain(&context, r.device) })
	if r.failure != nil && context == nil {
		r.failure.Message += modes[mode]
	}
	r.cuda("cuCtxSetCurrent", func() C.CUresult { return C.cuCtxSetCurrent(context) })
	var available, total C.size_t
	r.cuda("cuMemGetInfo_v2", func() C.CUresult { return C.cuMemGetInfo_v2(&available, &total) })
	if r.failure == nil && available < spare {
		r.failure = absent("cuMemGetInfo_v2", fmt.Sprintf("the GPU is in use: %.1f GiB of %.1f GiB are free, and the test needs %d GiB",
			float64(available)/(1<<30), float64(total)/(1<<30), spare>>30))
	}
	r.cuda("cuStreamCreate", func() C.CUresult { return C.cuStreamCreate(&r.stream, 0) })
	return smoke.Done{Name: name, Address: strings.ToLower(address), Backend: "nccl"}
}

// modes maps each compute mode to a text. The error of a context that cannot be created includes
// it.
var modes = map[C.int]string{
	C.CU_COMPUTEMODE_PROHIBITED:        "; the GPU's compute mode is prohibited: nvidia-smi -c DEFAULT resets it",
	C.CU_COMPUTEMODE_EXCLUSIVE_PROCESS: "; the GPU's compute mode is exclusive-process, and another process uses it",
}

// open loads a library and finds its functions. All functions in needed must exist.
func (r *rank) open(path string, needed *C.struct_symbol, more ...*C.struct_symbol) {
	if r.failure != nil {
		return
	}
	call := "dlopen " + path
	r.announce(call) // this call hangs if the library is on a mount that hangs
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	library := C.dlopen(text, C.RTLD_LAZY|C.RTLD_GLOBAL)
	if library == nil {
		r.failure = absent(call, C.GoString(C.dlerror()))
		return
	}
	if missing := C.find_symbols(library, needed); missing != nil {
		r.failure = absent("dlsym "+C.GoString(missing), path+" has no "+C.GoString(missing))
		return
	}
	for _, symbols := range more {
		C.find_symbols(library, symbols)
	}
}

// cuda announces a call and makes it, unless a call before it has failed.
func (r *rank) cuda(name string, call func() C.CUresult) {
	if r.failure != nil {
		return
	}
	r.announce(name)
	if result := call(); result != C.CUDA_SUCCESS {
		r.fail(name, result)
	}
}

func (r *rank) fail(call string, result C.CUresult) {
	kind := facts.SmokeError
	switch result {
	case C.CUDA_ERROR_JIT_COMPILER_NOT_FOUND, C.CUDA_ERROR_JIT_COMPILATION_DISABLED: // NCCL does not need this compiler
		kind = facts.SmokeAbsent
	}
	var name, text *C.char
	C.cuGetErrorName(result, &name)
	C.cuGetErrorString(result, &text)
	message := fmt.Sprintf("error %d, which %s has no name for", int(result), libcuda)
	if name != nil && text != nil {
		message = fmt.Sprintf("%s (%d): %s", C.GoString(name), int(result), C.GoString(text))
	}
	r.failure = &facts.SmokeFailure{Kind: kind, Call: call, Message: message}
}

// textOf returns the text that a call writes to its buffer.
func (r *rank) textOf(name string, call func(text *C.char, size C.int) C.CUresult) string {
	var text [256]C.char
	r.cuda(name, func() C.CUresult { return call(&text[0], C.int(len(text))) })
	return C.GoString(&text[0])
}

// attribute returns a device attribute, or -1 if an old driver does not know it.
func (r *rank) attribute(which C.CUdevice_attribute) C.int {
	value := C.int(-1)
	r.cuda("cuDeviceGetAttribute", func() C.CUresult {
		if C.cuDeviceGetAttribute(&value, which, r.device) != C.CUDA_SUCCESS {
			value = -1
		}
		return C.CUDA_SUCCESS
	})
	return value
}

// memory allocates size bytes of the GPU's memory.
func (r *rank) memory(size int) (memory C.CUdeviceptr) {
	r.cuda("cuMemAlloc_v2", func() C.CUresult { return C.cuMemAlloc_v2(&memory, C.size_t(size)) })
	return memory
}

func (r *rank) free(memory C.CUdeviceptr) {
	r.cuda("cuMemFree_v2", func() C.CUresult { return C.cuMemFree_v2(memory) })
}

// pinned allocates host memory that the GPU can access. It returns nil after a failure.
func pinned[T any](r *rank, count int) []T {
	var memory unsafe.Pointer
	var one T
	r.cuda("cuMemAllocHost_v2", func() C.CUresult {
		return C.cuMemAllocHost_v2(&memory, C.size_t(uintptr(count)*unsafe.Sizeof(one)))
	})
	if r.failure != nil {
		return nil
	}
	return unsafe.Slice((*T)(memory), count)
}

func unpin[T any](r *rank, memory []T) {
	r.cuda("cuMemFreeHost", func() C.CUresult { return C.cuMemFreeHost(unsafe.Pointer(unsafe.SliceData(memory))) })
}

func (r *rank) synchronize() {
	r.cuda("cuStreamSynchronize", func() C.CUresult { return C.cuStreamSynchronize(r.stream) })
}
