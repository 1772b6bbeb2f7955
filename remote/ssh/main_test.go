package ssh

import (
	"context"
	"fmt"
	"os"
	"testing"

	"preflight/remote"
	"preflight/remote/fixture"
)

// TestMain lets the test binary be what it delivers: started as `agent` on a
// pretended node, it serves the fixture's methods.
func TestMain(m *testing.M) {
	if len(os.Args) == 1 || os.Args[1] != "agent" {
		os.Exit(m.Run())
	}
	var err error
	if len(os.Args) == 5 && os.Args[2] == "install" {
		err = remote.Install(os.Args[3], os.Args[4])
	} else {
		methods := map[string]remote.Method{}
		for name, method := range fixture.Methods {
			methods[name] = method
		}
		err = remote.Serve(context.Background(), os.Stdin, os.Stdout, methods)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
