// SPDX-License-Identifier: Apache-2.0

package logtext

import (
	"testing"
)

func TestStamp(t *testing.T) {
	for text, want := range map[string]string{
		"[2026-03-01 10:20:30,421] [INFO] [launch.py:1] x":                      "03-01 10:20:30.421",
		"trainer-1  | 2026-03-01T10:20:30.123456789Z x":                         "03-01 10:20:30.123456",
		"2026-03-01T10:20:30+0100 w3 kernel: x":                                 "03-01 10:20:30",
		"[2026-03-01 10:20:30] w1:101:140 [0] NCCL WARN x":                      "03-01 10:20:30",
		"2026/03/01 10:20:30 x":                                                 "03-01 10:20:30",
		"03/01/2026 10:20:30 - INFO - __main__ - x":                             "03-01 10:20:30",
		"[INFO|trainer.py:1721] 2026-03-01 10:20:30,421 >> x":                   "03-01 10:20:30.421",
		"[rank0]:[E301 10:20:30.123456 ProcessGroupNCCL.cpp:616] x":             "03-01 10:20:30.123456",
		"[W301 10:20:30.123456789 socket.cpp:464] x":                            "03-01 10:20:30.123456",
		"w1: [E socket.cpp:922] x":                                              "",
		"E1121 10:20:30.123000 1234 torch/distributed/elastic/x.py:826] x":      "11-21 10:20:30.123",
		"I0301 10:20:30.123000 140 x":                                           "03-01 10:20:30.123",
		"Mar  1 10:20:30 w3 kernel: x":                                          "03-01 10:20:30",
		"Mar 01 10:20:30.5 w3 kernel: x":                                        "03-01 10:20:30.5",
		"[Sun Mar  1 10:20:30 2026] x":                                          "03-01 10:20:30",
		"[  812.123456] x":                                                      "",
		"10:20:30 x":                                                            "",
		"2026-13-01 10:20:30 x":                                                 "",
		"2026-03-01 25:20:30 x":                                                 "",
		"2026-00-00 00:00:00 x":                                                 "",
		"2026-99-99 99:99:99 then [E301 10:20:30.1 x.cpp:1] x":                  "03-01 10:20:30.1",
		"2024-02-29 23:59:60 x":                                                 "03-01 00:00:00",
		"":                                                                      "",
		"\xff\xfe 2026-03-01 10:20:30":                                          "03-01 10:20:30",
		"version 1.2026-03-01x, 4 of 8 at 12:00:00, 12026-03-01 10:20:30, W301": "",
	} {
		got, known := StampOf([]byte(text))
		if got.String() != want || known != (want != "") {
			t.Errorf("%q: got %q (%v), want %q", text, got, known, want)
		}
	}
	far := make([]byte, stampWithin)
	if got, known := StampOf(append(far, "2026-03-01 10:20:30"...)); known {
		t.Errorf("found %v behind what may be a prefix", got)
	}
}

func TestEarlier(t *testing.T) {
	at := func(text string) Stamp {
		s, _ := StampOf([]byte(text))
		return s
	}
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"2026-03-01 10:20:30", "2026-03-01 10:20:31", true},
		{"2026-03-01 10:20:31", "2026-03-01 10:20:30", false},
		{"2026-03-01 10:20:30", "2026-03-01 10:20:30", false},
		{"2026-03-01 10:20:30,1", "2026-03-01 10:20:30,09", false},
		{"2025-12-31 23:59:59", "2026-01-01 00:00:01", true}, // time stamps of glog have no year
		{"2026-01-01 00:00:01", "2025-12-31 23:59:59", false},
	} {
		if got := at(test.a).Earlier(at(test.b)); got != test.want {
			t.Errorf("%s before %s: %v", test.a, test.b, got)
		}
	}
}
