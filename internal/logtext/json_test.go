// SPDX-License-Identifier: Apache-2.0

package logtext

import "testing"

func TestFromJSON(t *testing.T) {
	for in, want := range map[string]string{
		`plain`: "plain",
		`{"log":"w1: \u003cx\u003e \"a\"\n","stream":"stderr","time":"2026-11-21T10:01:02.1Z"}`: `2026-11-21T10:01:02.1Z w1: <x> "a"`,
		`{"level":"info","msg":"Failed once","rank": 3,"pod_name":"t-0"}`:                       "t-0 | [rank3]: Failed once level=info",
		`{"message":"Traceback:\n  File\nValueError: x","host":"w2","error":"late"}`:            "w2 | Traceback:\r  File\rValueError: x\rlate",
		`{"loss": 1.5, "step": 7}`:            `{"loss": 1.5, "step": 7}`,
		`{"event":"cut`:                       "cut",
		`{"log":"broken \q","msg":"whole"}`:   "whole",
		`{"rank":"12","global_rank":"x","a":`: `[rank12]: {"rank":"12","global_rank":"x","a":`,
	} {
		if got := string(FromJSON([]byte(in))); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}
