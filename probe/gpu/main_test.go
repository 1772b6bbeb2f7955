// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"os"
	"slices"
	"testing"

	"preflight/probe/nvml"
)

// TestMain lets the test binary be the child that asks the driver. Like the program itself, it is
// then started as `agent nvml`.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{"agent", "nvml"}) {
		nvml.Serve(os.Stdout)
		return
	}
	os.Exit(m.Run())
}
