// SPDX-License-Identifier: Apache-2.0

// Command preflight tells, before a distributed-training launch, whether it
// can work, and on which node, why and what to type when it cannot.
//
// This package holds flags, configuration, one file a subcommand, and exit
// codes. It refuses to hold logic that deserves a test of its own: that lives
// in the rooms.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"

	"preflight/agent"
	"preflight/checks"
	"preflight/cmd/preflight/internal/usage"
	"preflight/hostfile"
	"preflight/internal/secret"
	"preflight/internal/text"
	"preflight/launch"
	_ "preflight/portable"
	"preflight/report"
)

// Exit codes: a contract.
const (
	exitPass    = 0
	exitFail    = 1 // a check failed, or two reports differ
	exitTrouble = 2 // could not tell, or could not run
)

// Version is set at build time (-ldflags -X main.Version=…).
var Version = "dev"

func main() {
	os.Exit(run(os.Args[1:]))
}

// run is one invocation; it returns the exit code.
func run(args []string) int {
	if len(args) > 0 && args[0] == "agent" && (len(args) == 1 || !strings.HasPrefix(args[1], "-")) { // a preflight that carries no agents is one
		return agent.Main(args[1:])
	}
	// The first Ctrl-C ends the wait for nodes or the drills, and the run prints what it knows.
	// A second one kills at once, because stop restores the default.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := rootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var code exitCode
	switch {
	case err == nil:
		return exitPass
	case errors.As(err, &code):
		return int(code)
	}
	complain(os.Stderr, err)
	return exitTrouble
}

// mostErrors is how many errors are said at once: a hostfile that is wrong
// everywhere is wrong in one way.
const mostErrors = 10

// complain says what is wrong and the way out. Of a bad hostfile it says every
// line, up to a number, and what DeepSpeed would have made of it.
func complain(w io.Writer, err error) {
	if several, ok := errors.AsType[*multierror.Error](err); ok && len(several.Errors) > 0 {
		for _, one := range several.Errors[:min(len(several.Errors), mostErrors)] {
			complain(w, one)
		}
		if more := len(several.Errors) - mostErrors; more > 0 {
			fmt.Fprintf(w, "preflight: and %d more\n", more)
		}
		return
	}
	fmt.Fprintf(w, "preflight: %s\n", said(err.Error()))
	if line, ok := errors.AsType[*hostfile.LineError](err); ok && line.DeepSpeed != "" {
		fmt.Fprintf(w, "  deepspeed would say: %s\n", said(line.DeepSpeed))
	}
	if filter, ok := errors.AsType[*hostfile.FilterError](err); ok && filter.DeepSpeed != "" {
		fmt.Fprintf(w, "  deepspeed would say: %s\n", said(filter.DeepSpeed))
	}
	if misused, ok := errors.AsType[*launch.UsageError](err); ok && misused.Original != "" {
		fmt.Fprintf(w, "  %s would say: %s\n", misused.Program, said(misused.Original))
	}
	if hint, ok := errors.AsType[*usage.Error](err); ok {
		fmt.Fprintf(w, "  %s\n", secret.Hide(hint.Hint))
	}
}

// said is what an error says as it may be shown: errors quote what was typed, and nodes.
func said(line string) string { return text.Escape(secret.Hide(line)) }

// exitCode ends the program after everything has been said already.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// versionOf is what a program asks before it reads anything else of ours.
type versionOf struct {
	Schema  int    `json:"schema"` // of every JSON document
	Version string `json:"version"`
	Go      string `json:"go"`
	System  string `json:"system"` // as Go names it: linux/amd64
}

func versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of preflight and of its JSON schema",
		Long:  `Show the version of preflight. With --format json, also show the schema of its JSON reports.`,
		Args:  arguments(0, 0, "takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			this := versionOf{checks.Schema, Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if cmd.Flag("format").Value.String() == "json" {
				return report.JSON(os.Stdout, this)
			}
			_, err := fmt.Printf("preflight version %s\n", this.Version)
			return err
		},
	}
	formatFlag(cmd, plainFormats...)
	return cmd
}
