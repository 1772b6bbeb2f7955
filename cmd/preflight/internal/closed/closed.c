// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

int preflight_output_was_closed;

// Before main, and so before Go's runtime.
__attribute__((constructor)) static void look(void) {
	preflight_output_was_closed = fcntl(1, F_GETFD) == -1;
}
