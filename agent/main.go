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

// Main is the program that runs on a node, and it returns the exit code. The script deliver.sh and
// the program itself call it. After "agent", the command line is one of
//
//	[FILE]             answer the launching machine; FILE only shows in process lists
//	FILE call          call back the launching machine, as described on stdin, and answer it
//	install DIR HASH   take its place in a private directory
//	nvml               ask NVIDIA's driver, for the agent
//	smoke N LIBNCCL    be a rank on CUDA's GPU number N with this libnccl, for the
//	                   agent; "" is the one that the loader finds by its name
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
		// Signals that are meant for the login must not interrupt an answer: an agent ends when
		// stdin ends. The agent catches these signals and does not ignore them, because its
		// children would inherit the ignored state. SIGPIPE and SIGHUP come when the connection is
		// cut, and the agent must still remove what it left on the node.
		signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGHUP)
		if len(args) < 2 {
			err = Run(context.Background(), os.Stdin, os.Stdout)
			break
		}
		err = meet.CallBack(context.Background(), os.Stdin, func(in io.Reader, out io.Writer) error { return Run(context.Background(), in, out) })
		if err != nil {
			fmt.Println(remote.Marker + "uncalled " + err.Error())
			err = nil // some launchers end all tasks if one task fails
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
