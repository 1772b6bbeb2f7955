// SPDX-License-Identifier: Apache-2.0

//go:build linux

package direct

import _ "embed"

// source is what GPUs compute, as text that the driver compiles for whatever is there.
//
//go:embed kernel.ptx
var source string

const (
	kernelName = "churn"
	// rounds are the steps of one launch, a multiple of the four that the kernel has in its
	// loop: some 20 ms of an H100, beside which launching takes nothing.
	rounds = 16 << 10
	// operations are those of one step: two multiplications, two additions.
	operations = 4
	// threads are those of a block, each with a word of its own.
	threads = 256
)

// affine is x → times·x + plus, modulo 2³².
type affine struct{ times, plus uint32 }

// step is what the kernel has each word take: the generator of Numerical Recipes (Knuth and
// H. W. Lewis), whose factor is odd, so that no two words become one.
var step = affine{1664525, 1013904223}

func (a affine) of(x uint32) uint32 { return a.times*x + a.plus }

// then is a, and b of what came of it.
func (a affine) then(b affine) affine { return affine{a.times * b.times, b.of(a.plus)} }

// repeated is a so many times over.
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

// pattern is what the words of a buffer are at first: each another, and every bit used.
func pattern(i int) uint32 { return uint32(i) * 0x9e3779b9 }
