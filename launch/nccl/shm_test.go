// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/launch"
)

// TestSHMNeed: the sizes of the pools are those at NVIDIA/nccl's tags. A file in /dev/shm is four
// bytes larger, such as 4194660 in NVIDIA's troubleshooting page.
func TestSHMNeed(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		nccl                       string
		ranks, nodes, communicator int
		want                       int64
		arithmetic                 string
	}{
		{"2.13.4", 8, 2, 1, 8 * 4194660, "8 ranks × 1 communicator × 4.0 MiB for NCCL (NCCL 2.13.4 is older than the table, treated as 2.14-2.19)"},
		{"2.14.3", 1, 2, 1, 4194660, "1 rank × 1 communicator × 4.0 MiB for NCCL (NCCL 2.14-2.19)"},
		{"2.19.3", 8, 2, 1, 8 * 4194660, "8 ranks × 1 communicator × 4.0 MiB for NCCL (NCCL 2.14-2.19)"},
		{"2.20.5", 8, 2, 1, 8 * 5767524, "8 ranks × 1 communicator × 5.5 MiB for NCCL (NCCL 2.20)"},
		{"2.21.5+cuda12.4", 8, 2, 1, 8 * 7340388, "8 ranks × 1 communicator × 7.0 MiB for NCCL (NCCL 2.21-2.22)"},
		{"2.22.3", 4, 2, 0, 4 * 7340388, "4 ranks × 1 communicator × 7.0 MiB for NCCL (NCCL 2.21-2.22)"},
		{"2.23.4", 8, 2, 1, 8 * 10486116, "8 ranks × 1 communicator × 10.0 MiB for NCCL (NCCL 2.23)"},
		{"2.24.3", 8, 2, 1, 8 * 14156132, "8 ranks × 1 communicator × 13.5 MiB for NCCL (NCCL 2.24)"},
		{"2.25.1", 8, 2, 1, 8 * 31850884, "8 ranks × 1 communicator × 30.4 MiB for NCCL (NCCL 2.25)"},
		{"2.27.7", 8, 2, 3, 24 * 33030532, "8 ranks × 3 communicators × 31.5 MiB for NCCL (NCCL 2.26-2.27)"},
		{"2.28.3", 8, 2, 1, 8 * 34210180, "8 ranks × 1 communicator × 32.6 MiB for NCCL (NCCL 2.28-2.30)"},
		{"2.30.7", 8, 64, 1, 8 * 34210180, "8 ranks × 1 communicator × 32.6 MiB for NCCL (NCCL 2.28-2.30)"},
		{"2.31.0", 8, 2, 1, 8 * 34210180, "8 ranks × 1 communicator × 32.6 MiB for NCCL (NCCL 2.31.0 is newer than the table, treated as 2.28-2.30)"},
		{"", 8, 2, 1, 8 * 34210180, "8 ranks × 1 communicator × 32.6 MiB for NCCL (NCCL version unknown, assumed 2.28-2.30)"},
		{"git", 8, 2, 1, 8 * 34210180, `8 ranks × 1 communicator × 32.6 MiB for NCCL (NCCL version "git" not understood, treated as 2.28-2.30)`},
		{"2.30.7", 0, 2, 1, 0, "0 ranks × 1 communicator × 32.6 MiB for NCCL (NCCL 2.28-2.30)"},
		{"2.30.7", 8, 1, 1, 0, "one node: NCCL needs nothing in /dev/shm"},
	} {
		got := SHMNeed(c.nccl, c.ranks, c.nodes, c.communicator)
		if got.Bytes != c.want || got.Arithmetic != c.arithmetic {
			t.Errorf("SHMNeed(%q, %d, %d, %d) = %d, %s\nwant %d, %s", c.nccl, c.ranks, c.nodes, c.communicator,
				got.Bytes, got.Arithmetic, c.want, c.arithmetic)
		}
	}
	// Users report that Docker's 64 MiB are enough for eight ranks only up to 2.22.
	if a, b := SHMNeed("2.22.3", 8, 2, 1), SHMNeed("2.23.4", 8, 2, 1); a.Bytes > 64*mib || b.Bytes <= 64*mib {
		t.Errorf("64 MiB must hold 2.22 (%d) and not 2.23 (%d)", a.Bytes, b.Bytes)
	}
}

// TestSHMSegments: bug reports show 9637888 as the size of one SHM segment.
func TestSHMSegments(t *testing.T) {
	for ranks, want := range map[int]int64{0: 0, 1: 0, 2: 2 * 2 * (4100 + 9637892), 8: 8 * 2 * (4100 + 9637892)} {
		if got := SHMNeed("2.21.5", ranks, 1, 1).Segments; got != want {
			t.Errorf("segments of %d ranks: %d, want %d", ranks, got, want)
		}
	}
}

func TestCuMemHostProbed(t *testing.T) {
	set := func(pairs ...string) (env []facts.Setting) {
		for i := 0; i < len(pairs); i += 2 {
			env = append(env, facts.Setting{Name: pairs[i], Value: pairs[i+1]})
		}
		return env
	}
	for _, c := range []struct {
		name               string
		nccl, cuda, driver string
		env                []facts.Setting
		want               bool
	}{
		{"first release with the trial", "2.26.3", "12.8", "12.8", nil, true},
		{"the release before", "2.26.2", "12.8", "12.8", nil, false},
		{"newest", "2.30.7+cuda13.0", "13.0", "13.0", nil, true},
		{"nothing known", "", "", "", nil, true},
		{"built by an old toolkit", "2.27.3", "12.1", "12.8", nil, false},
		{"driver without it", "2.27.3", "12.4", "12.1", nil, false},
		{"driver with it off by default", "2.27.3", "12.4", "12.4", nil, false},
		{"driver with it on by default", "2.27.3", "12.4", "12.6", nil, true},
		{"turned on", "2.27.3", "12.4", "12.4", set("NCCL_CUMEM_HOST_ENABLE", "1"), true},
		{"turned on in vain", "2.27.3", "12.4", "12.1", set("NCCL_CUMEM_HOST_ENABLE", "1"), false},
		{"turned off", "2.27.3", "12.8", "12.8", set("NCCL_CUMEM_HOST_ENABLE", "0"), false},
		{"turned off in hexadecimal", "2.27.3", "12.8", "12.8", set("NCCL_CUMEM_HOST_ENABLE", "0x0"), false},
		{"a word is zero", "2.27.3", "12.8", "12.8", set("NCCL_CUMEM_HOST_ENABLE", "yes"), false},
		{"the number that it begins with", "2.27.3", "12.8", "12.4", set("NCCL_CUMEM_HOST_ENABLE", "1yes"), true},
		{"empty is unset", "2.27.3", "12.8", "12.8", set("NCCL_CUMEM_HOST_ENABLE", ""), true},
		{"minus one is the default", "2.27.3", "12.8", "12.4", set("NCCL_CUMEM_HOST_ENABLE", "-1"), false},
		{"no cuMem at all", "2.27.3", "12.8", "12.8", set("NCCL_CUMEM_ENABLE", "0", "NCCL_CUMEM_HOST_ENABLE", "1"), false},
		{"cuMem by detection", "2.27.3", "12.8", "12.8", set("NCCL_CUMEM_ENABLE", "-2"), true},
	} {
		got := CuMemHostProbed(facts.NCCLLibrary{Version: c.nccl, CUDA: c.cuda}, c.driver, launch.RankEnv(&facts.Env{Vars: c.env}, nil))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestNumber(t *testing.T) {
	for _, test := range []struct {
		text     string
		value    int64
		isNumber bool
	}{
		{"1", 1, true},
		{"0", 0, true},
		{"-1", -1, true},
		{"+7", 7, true},
		{" 22", 22, true},
		{"0x10", 16, true},
		{"010", 8, true}, // an octal number, as in C
		{"08", 0, true},  // the octal number 0, followed by an 8
		{"4194304 bytes", 4194304, true},
		{"4M", 4, true},
		{"true", 0, false},
		{"", 0, false},
		{"-", 0, false},
		{"x1", 0, false},
	} {
		if value, isNumber := Number(test.text); value != test.value || isNumber != test.isNumber {
			t.Errorf("Number(%q) = %d, %v; want %d, %v", test.text, value, isNumber, test.value, test.isNumber)
		}
	}
}
