// SPDX-License-Identifier: Apache-2.0

// Command preflight checks a distributed-training launch before it starts. It reports which node is
// broken, why, and which command fixes it.
//
// This package holds flags, configuration, one file per subcommand, and exit codes. Logic that
// deserves its own test belongs in another package.
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

// Exit codes. Scripts depend on them.
const (
	exitPass    = 0
	exitFail    = 1 // a check failed, or two reports differ
	exitTrouble = 2 // preflight could not check everything, or could not run
)

// Version is set at build time (-ldflags -X main.Version=…).
var Version = "dev"

func main() {
	os.Exit(run(os.Args[1:]))
}

// run runs preflight with the given arguments and returns the exit code.
func run(args []string) int {
	if len(args) > 0 && args[0] == "agent" && (len(args) == 1 || !strings.HasPrefix(args[1], "-")) { // a preflight without embedded agents sends itself to the nodes
		return agent.Main(args[1:])
	}
	// The first Ctrl-C ends the wait for nodes and tests, and the run prints what it has found. A
	// second Ctrl-C kills the process, because stop restores the default.
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

// mostErrors is the maximum number of errors to print. A hostfile with more errors usually has the
// same mistake in all lines.
const mostErrors = 10

// complain prints an error and what to do about it. For a bad hostfile it prints the errors of all
// lines, up to mostErrors, and DeepSpeed's own errors.
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
	fmt.Fprintf(w, "preflight: %s\n", printable(err.Error()))
	if line, ok := errors.AsType[*hostfile.LineError](err); ok && line.DeepSpeed != "" {
		fmt.Fprintf(w, "  what deepspeed prints in this case: %s\n", printable(line.DeepSpeed))
	}
	if filter, ok := errors.AsType[*hostfile.FilterError](err); ok && filter.DeepSpeed != "" {
		fmt.Fprintf(w, "  what deepspeed prints in this case: %s\n", printable(filter.DeepSpeed))
	}
	if misused, ok := errors.AsType[*launch.UsageError](err); ok && misused.Original != "" {
		fmt.Fprintf(w, "  what %s prints in this case: %s\n", misused.Program, printable(misused.Original))
	}
	if hint, ok := errors.AsType[*usage.Error](err); ok {
		fmt.Fprintf(w, "  %s\n", secret.Hide(hint.Hint))
	}
}

// printable hides secrets in an error message and escapes it, because errors quote arguments and
// text from nodes.
func printable(line string) string { return text.Escape(secret.Hide(line)) }

// exitCode is an error that ends the program without a message.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// versionOf is the JSON form of `preflight version`. Programs read it before any other output.
type versionOf struct {
	Schema  int    `json:"schema"` // schema version of all JSON reports
	Version string `json:"version"`
	Go      string `json:"go"`
	System  string `json:"system"` // GOOS and GOARCH: linux/amd64
}

func versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of preflight and of its JSON schema",
		Long: `Show preflight's version. With --format json, also show the schema version of its JSON
reports.`,
		Args: arguments(0, 0, "takes no arguments"),
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
