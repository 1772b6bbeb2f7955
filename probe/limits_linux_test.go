package probe

import (
	"math"
	"testing"

	"golang.org/x/sys/unix"

	"preflight/facts"
)

func TestLimitTurnsInfinityIntoMinusOne(t *testing.T) {
	for _, test := range []struct {
		soft, hard uint64
		want       facts.Limit
	}{
		{1024, 1048576, facts.Limit{Soft: 1024, Hard: 1048576}},
		{0, unix.RLIM_INFINITY, facts.Limit{Soft: 0, Hard: -1}},
		{math.MaxInt64, math.MaxInt64 + 1, facts.Limit{Soft: math.MaxInt64, Hard: -1}},
	} {
		if got := limit(test.soft, test.hard); got != test.want {
			t.Errorf("limit(%d, %d) = %+v, want %+v", test.soft, test.hard, got, test.want)
		}
	}
}

func TestLimitsAreThoseOfThisProcess(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, nil, &before); err != nil {
		t.Fatal(err)
	}
	lower := unix.Rlimit{Cur: min(4096, before.Max), Max: before.Max}
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, &lower, nil); err != nil {
		t.Fatal(err)
	}
	defer unix.Prlimit(0, unix.RLIMIT_CORE, &before, nil)
	got, err := collectLimits(t.Context(), fixture(t, "host-docker-cgroup2"))
	if err != nil {
		t.Fatal(err)
	}
	if want := limit(lower.Cur, lower.Max); got.Core != want {
		t.Errorf("core is %+v, want %+v", got.Core, want)
	}
	if got.FileMax != math.MaxInt64 {
		t.Errorf("file-max is %d", got.FileMax)
	}
}

func TestPIDsLimit(t *testing.T) {
	for name, want := range map[string]int64{"host-metal-cgroup1": 10813, "host-docker-cgroup2": 4096} {
		got, err := collectLimits(t.Context(), fixture(t, name))
		if err != nil || got.PIDsMax == nil || *got.PIDsMax != want {
			t.Errorf("%s: limits %+v, error %v, want %d processes", name, got, err, want)
		}
	}
}

func TestLimitsWithoutProcAreNotLookedAt(t *testing.T) {
	if got, err := collectLimits(t.Context(), options{Root: t.TempDir()}); err == nil {
		t.Errorf("an empty machine is told as %+v", got)
	}
}
