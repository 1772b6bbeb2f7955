// SPDX-License-Identifier: Apache-2.0
//go:build linux && cgo && !netgo && (amd64 || arm64)

#include "oldest.h"

// 2.34: libresolv. Before that, res_search was a macro in resolv.h.
OLD_NAMED(int, res_search, "__res_search",
	(const char *name, int class, int type, unsigned char *answer, int size), (name, class, type, answer, size))
