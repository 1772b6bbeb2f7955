// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDirectDeclarations compares the CUDA and NCCL declarations of the smoke test's direct engine
// with the headers in torch's wheels. It also looks up each function in the libnccl that is next to
// the headers.
func TestDirectDeclarations(t *testing.T) {
	declarations, err := filepath.Abs("../drill/smoke/direct")
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range ncclLibraries(t) {
		wheels := filepath.Join(filepath.Dir(library.path), "../..")
		headers := []string{"-I" + filepath.Join(wheels, "nccl/include")}
		for _, runtime := range []string{"cuda_runtime/include", "cu13/include"} {
			headers = append(headers, "-I"+filepath.Join(wheels, runtime))
		}
		ours := compiled(t, "-DOURS", "-I"+declarations)
		theirs := compiled(t, append(headers, "-I"+declarations)...)
		if want, got := printed(t, theirs), printed(t, ours); got != want {
			t.Errorf("%s: declared is\n%s\nand it is\n%s", library.path, got, want)
		}
		for _, name := range strings.Fields(printed(t, ours, "functions")) {
			if out, err := exec.Command(library.python, "-c", "import ctypes, sys; getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])", library.path, name).CombinedOutput(); err != nil {
				t.Errorf("%s in %s: %s", name, library.path, out)
			}
		}
	}
}

// compiled compiles a program that prints the declarations. Unless OURS is defined, the program
// compiles only if each function has the parameters and the result that the direct engine assumes.
func compiled(t *testing.T, flags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "declared")
	source := program + ".c"
	if err := os.WriteFile(source, []byte(declared), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", append(flags, "-o", program, source)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

func printed(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

const declared = `
#include <stdio.h>
#ifndef OURS
#include <cuda.h>
#define __CUDA_RUNTIME_H__ /* for which torch's wheels have not all; of it nccl.h needs but this */
#define __CUDA_FP16_H__
typedef CUstream cudaStream_t;
#include <nccl.h>
#define TYPES_ARE_THEIRS
#if CUDA_VERSION < 12040 /* whose headers have no name for it yet */
#define CU_DEVICE_ATTRIBUTE_MPS_ENABLED 133
#endif
#ifndef NCCL_API_MAGIC /* which has no name in old ones */
#define NCCL_API_MAGIC 0xcafebeef
#endif
#endif
#include "libraries.h"

#ifndef OURS
#define SAME(result, name, parameters, arguments) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(found_##name), __typeof__(&name)), #name);
FUNCTIONS(SAME)
ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
#else
ncclConfig_t initial = {.magic = NCCL_API_MAGIC};
#endif

#define NAME(result, name, parameters, arguments) puts(#name);
#define VALUE(value) printf(#value " %lld\n", (long long)(value));

int main(int count, char **arguments)
{
	(void)arguments;
	if (count > 1) {
		NCCL_FUNCTIONS(NAME)
		NCCL_FUNCTIONS_OF_LATER(NAME)
		return 0;
	}
	VALUE(CUDA_SUCCESS)
	VALUE(CUDA_ERROR_DEVICE_UNAVAILABLE)
	VALUE(CUDA_ERROR_JIT_COMPILER_NOT_FOUND)
	VALUE(CUDA_ERROR_JIT_COMPILATION_DISABLED)
	VALUE(CUDA_ERROR_NOT_READY)
	VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)
	VALUE(CU_DEVICE_ATTRIBUTE_MPS_ENABLED)
	VALUE(CU_COMPUTEMODE_DEFAULT)
	VALUE(CU_COMPUTEMODE_PROHIBITED)
	VALUE(CU_COMPUTEMODE_EXCLUSIVE_PROCESS)
	VALUE(sizeof(CUdevice))
	VALUE(sizeof(CUdeviceptr))
	VALUE(ncclSuccess)
	VALUE(ncclInProgress)
	VALUE(ncclSum)
	VALUE(ncclFloat32)
	VALUE(sizeof(ncclUniqueId))
	VALUE(offsetof(ncclConfig_t, size))
	VALUE(offsetof(ncclConfig_t, magic))
	VALUE(offsetof(ncclConfig_t, version))
	VALUE(offsetof(ncclConfig_t, blocking))
	VALUE(initial.magic)
}
`
