// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"

	"preflight/internal/lazyregexp"
)

func TestRefusal(t *testing.T) {
	torch := lazyregexp.New("^libtorch")
	for _, c := range []struct {
		needed       *lazyregexp.Regexp
		stdout, want string
	}{
		{torch, "\tlibtorch_cpu.so => not found\n\tlibm.so.6 => /lib/libm.so.6 (0x7f)\n", "libtorch_cpu.so: not found"},
		{torch, "\tlibcudart.so.12 => not found\n\tlibtorch.so => not found\n", "libtorch.so: not found"},
		{torch, "\tlibcudart.so.12 => not found\n", ""}, // torch loads this library by its path
		{nil, "\tlibm.so.6 => /lib/libm.so.6 (0x7f)\n\tlibopen-rte.so.40 => not found\n", "libopen-rte.so.40: not found"},
	} {
		if got := (Linked{Needed: c.needed}).refusal(c.stdout, ""); got != c.want {
			t.Errorf("%q: %q, want %q", c.stdout, got, c.want)
		}
	}
}
