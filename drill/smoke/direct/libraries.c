// SPDX-License-Identifier: Apache-2.0
//go:build linux && cgo

#include "libraries.h"

#include <dlfcn.h>

#define POINTER(result, name, parameters, arguments) result(*found_##name) parameters;
FUNCTIONS(POINTER)

#define ROW(result, name, parameters, arguments) {#name, (void **)&found_##name},
static const struct symbol of_cuda[] = {CUDA_FUNCTIONS(ROW){NULL, NULL}};
static const struct symbol of_nccl[] = {NCCL_FUNCTIONS(ROW){NULL, NULL}};
static const struct symbol of_later_nccl[] = {NCCL_FUNCTIONS_OF_LATER(ROW){NULL, NULL}};
const struct symbol *const cuda_symbols = of_cuda, *const nccl_symbols = of_nccl, *const later_nccl_symbols = of_later_nccl;

const char *find_symbols(void *library, const struct symbol *symbols)
{
	const char *missing = NULL;

	for (; symbols->name; symbols++) {
		*symbols->found = dlsym(library, symbols->name);
		if (!*symbols->found && !missing)
			missing = symbols->name;
	}
	return missing;
}
