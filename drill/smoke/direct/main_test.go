// SPDX-License-Identifier: Apache-2.0

package direct

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// TestMain lets the test binary be a rank. Like the program itself, it is then started as `agent
// smoke N LIBNCCL`.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[2] == "smoke" {
		device, err := strconv.Atoi(os.Args[3])
		if err == nil {
			err = Serve(device, os.Args[4])
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
