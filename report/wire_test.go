// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"strings"
	"testing"

	"preflight/checks"
	"preflight/testhosts/reporttest"
)

// TestAdviceTellsTriedFromSeen checks that settings that no drill tried are shown only in verbose
// mode.
func TestAdviceTellsTriedFromSeen(t *testing.T) {
	r := reporttest.Wired()
	r.Advice.Program, r.Advice.Args = "torchrun", []string{"--rdzv_endpoint=10.0.0.1:29500"}
	r.Advice.Seen = []checks.AdvisedEnv{{Name: "NCCL_IB_GID_INDEX", Value: "3", Why: "it is there"}}
	for verbose, want := range map[bool]int{false: 0, true: 1} {
		var got bytes.Buffer
		if err := Text(&got, r, Style{Verbose: verbose}); err != nil {
			t.Fatal(err)
		}
		text := got.String()
		if strings.Count(text, "NCCL_IB_GID_INDEX=3") != want || strings.Count(text, headingDerived) != want {
			t.Errorf("verbose %v: want what was seen %d times:\n%s", verbose, want, text)
		}
		if !strings.Contains(text, "  torchrun --rdzv_endpoint=10.0.0.1:29500 …") {
			t.Errorf("verbose %v: the argument is not torchrun's:\n%s", verbose, text)
		}
	}
}
