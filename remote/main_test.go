// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"

	"preflight/testhosts/remotetest"
)

// TestMain lets the test binary be the agent that it delivers. If it is started as `agent` on a
// simulated node, it serves the methods below.
func TestMain(m *testing.M) {
	if len(os.Args) == 1 || os.Args[1] != "agent" {
		if own, err := Own("linux", runtime.GOARCH); err == nil {
			_, _ = own.Gzip() // see carriertest.Compress
		}
		os.Exit(m.Run())
	}
	var err error
	if len(os.Args) == 5 && os.Args[2] == "install" {
		if os.Getenv("CLEANED") != "" { // the effect of a preflight clean that has just run
			_ = os.RemoveAll(os.Args[3])
		}
		err = Install(os.Args[3], os.Args[4])
	} else {
		Arrive()
		err = Serve(context.Background(), os.Stdin, os.Stdout, testMethods)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// testMethods holds the methods of the test agent.
var testMethods = func() map[string]Method {
	methods := map[string]Method{}
	for name, method := range remotetest.Methods {
		methods[name] = method
	}
	return methods
}()
