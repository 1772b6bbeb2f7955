// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"

	"preflight/drill/smoke/direct"
	"preflight/probe/nvml"
	"preflight/remote"
	"preflight/remote/meet"
)

// Main is the program that runs on a node, called by deliver.sh and by itself. It returns
// the exit code. What follows "agent" on its command line is one of
//
//	[FILE]             answer the launching machine; FILE only shows in a list of processes
//	FILE call          call it back, as standard input says, and answer it then
//	install DIR HASH   take one's place in a private directory
//	nvml               ask NVIDIA's driver, for the agent
//	smoke N LIBNCCL    be a rank with the GPU that CUDA numbers so, and with that libnccl, for
//	                   the agent; "" is the one that the loader finds by its name
func Main(args []string) int {
	var err error
	switch {
	case len(args) == 3 && args[0] == "install":
		err = remote.Install(args[1], args[2])
	case slices.Equal(args, []string{"nvml"}):
		nvml.Serve(os.Stdout)
	case len(args) == 3 && args[0] == "smoke":
		var device int
		if device, err = strconv.Atoi(args[1]); err == nil {
			err = direct.Serve(device, args[2])
		}
	case len(args) <= 2:
		remote.Arrive()
		// Signals meant for the login must not cut an answer short: the end of stdin is
		// what ends an agent. Ignored, they would be so in its children too.
		signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM)
		if len(args) < 2 {
			err = Run(context.Background(), os.Stdin, os.Stdout)
			break
		}
		err = meet.CallBack(context.Background(), os.Stdin, func(in io.Reader, out io.Writer) error { return Run(context.Background(), in, out) })
		if err != nil {
			fmt.Println(remote.Marker + "uncalled " + err.Error())
			err = nil // to some launchers a task that fails is a reason to end all others
		}
	default:
		err = fmt.Errorf("the agent does not understand %q", args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "preflight:", err)
		return 1
	}
	return 0
}
