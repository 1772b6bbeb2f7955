package testhosts

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
)

var raised atomic.Int64

// RaiseFor raises a cluster for the time of a test, and skips that where it would take
// root. Its name begins with that of the options and is nobody else's: other tests, and
// the same in another checkout, may run on this machine. Logins are light.
func RaiseFor(t testing.TB, options Options) *Cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("NOT RUN: %s raises namespace hosts, which needs root", t.Name())
	}
	options.Name = fmt.Sprintf("%s%d-%d", options.Name, os.Getpid(), raised.Add(1))
	options.LightLogins = true
	c, err := Raise(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Down(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// InParts tests the rows of a table in four parts side by side, each on a cluster of its
// own: what takes such tests their time is waiting for what never comes, and a cluster is
// up in a moment. mine tells which rows, counted from 0, are a part's.
func InParts(t *testing.T, options Options, test func(t *testing.T, c *Cluster, mine func(row int) bool)) {
	t.Parallel()
	const parts = 4
	for part := range parts {
		t.Run(fmt.Sprintf("part %d", part+1), func(t *testing.T) {
			t.Parallel()
			test(t, RaiseFor(t, options), func(row int) bool { return row%parts == part })
		})
	}
}
