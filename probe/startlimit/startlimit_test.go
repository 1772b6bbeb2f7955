// SPDX-License-Identifier: Apache-2.0

package startlimit_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"preflight/probe/startlimit"
)

const childMark = "PREFLIGHT_TEST_SHOW_START_LIMIT"

// TestMain lets the test binary replace the agent. If childMark is set, the binary prints the limit
// that startlimit remembers, and exits.
func TestMain(m *testing.M) {
	if os.Getenv(childMark) != "" {
		fmt.Print(startlimit.NoFile.Soft)
		return
	}
	os.Exit(m.Run())
}

func TestNoFileIsTheLimitOfTheSessionNotTheOneGoRaisedItTo(t *testing.T) {
	child := exec.Command("sh", "-c", `ulimit -Sn 257 && exec "$0"`, os.Args[0])
	child.Env = append(os.Environ(), childMark+"=1")
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("child: %v\n%s", err, out)
	}
	if got := string(out); got != "257" {
		t.Errorf("a process started with 257 open files remembers %s", got)
	}
}
