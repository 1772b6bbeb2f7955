// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"

	"preflight/internal/lazyregexp"
)

// The calls that make a group of gloo whatever accelerators there are, but in a comment:
// glooGroup beside another, and glooAlone where no other is named that may be meant for them.
// One that chooses ("nccl" if … else "gloo") is none.
var (
	glooGroup = lazyregexp.New(`(?m)^[^#\n]*(?:["'](?:\w+:\w+,)*cpu:gloo\b|\bnew_group\([^)#]*\bbackend\s*=\s*["']gloo["']\s*[,)])`)
	glooAlone = lazyregexp.New(`(?m)^[^#\n]*\binit_process_group\(\s*(?:backend\s*=\s*)?["']gloo["']\s*[,)]`)
)

// makesGloo is whether a script asks torch.distributed for a group of gloo by name; what
// it imports may do so as well. Nothing of its text is kept.
func makesGloo(text []byte) bool {
	return glooGroup.Match(text) || glooAlone.Match(text) && !bytes.Contains(text, []byte("nccl"))
}
