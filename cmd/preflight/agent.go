// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"preflight/agent"
	"preflight/cmd/preflight/internal/usage"
	"preflight/remote/meet"
)

// tokenVariable names the variable with the token that the agents and preflight share. It is used
// if no file has the token. A token on a command line could be read by every user of the machine.
const tokenVariable = "PREFLIGHT_MEET_TOKEN"

// meetToken returns the token from a file, or from the environment. It removes the variable, so
// that no program that preflight starts can read it.
func meetToken(file string) (string, error) {
	token := os.Getenv(tokenVariable)
	os.Unsetenv(tokenVariable)
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("--meet-token-file: %w", err)
		}
		token = string(text)
	}
	if token = strings.TrimSpace(token); token == "" {
		return "", usage.WithHint(errors.New("no shared token"),
			"give preflight and the nodes the same one, in %s or with --meet-token-file; to make one: head -c 32 /dev/urandom | base64", usage.Words(tokenVariable))
	}
	return token, meet.Checked(token)
}

// callInterval is the time between two attempts to connect to a preflight that does not listen yet.
const callInterval = time.Second

// agentCommand returns the command for the agent of --via meet, which connects to preflight by
// itself. run starts all other agents without cobra.
func agentCommand() *cobra.Command {
	var address, node, file string
	var patience time.Duration
	cmd := &cobra.Command{
		Use:   "agent --meet HOST:PORT",
		Short: "Connect a node to preflight --via meet, and wait for the verdict",
		Long: `Connect this node to preflight --via meet, and wait for the verdict. Use agent on nodes
that preflight cannot log in to, such as pods. agent connects to preflight at
HOST:PORT, which checks the node and sends the verdict. If agent runs as an init
container, it holds back the pod's other containers until the verdict arrives.

Exit codes: 0 the launch may start, 1 the launch may not start or some checks are unknown,
2 agent could not run or could not connect.`,
		Example: `  preflight agent --meet HOST:29400 --node "$POD_NAME"`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if address == "" {
				return usage.WithHint(errors.New("agent needs --meet HOST:PORT"), "name the machine that runs preflight --via meet: preflight agent --meet HOST:PORT")
			}
			token, err := meetToken(file)
			if err != nil {
				return err
			}
			if node == "" {
				if node, err = os.Hostname(); err != nil {
					return err
				}
			}
			verdict, err := call(cmd.Context(), address, node, token, patience)
			if err != nil {
				return err
			}
			if !verdict.Go {
				fmt.Fprintln(os.Stderr, "preflight: the launch may not begin:", verdict.Why)
				return exitCode(exitFail)
			}
			fmt.Fprintln(os.Stderr, "preflight: the launch may begin:", verdict.Why)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&address, "meet", "", "address of the machine that runs preflight --via meet")
	flags.StringVar(&node, "node", "", "this node's name in the list given to preflight --via meet (default: the host name)")
	flags.StringVar(&file, "meet-token-file", "", "file that contains the token shared by the nodes and preflight (default: $"+tokenVariable+")")
	flags.DurationVar(&patience, "patience", 10*time.Minute, "how long to wait for preflight --via meet to start listening")
	return cmd
}

// call connects to preflight and returns its verdict. It tries again only while nothing listens at
// the address. It never repeats a call after a connection was made.
func call(ctx context.Context, address, node, token string, patience time.Duration) (meet.Verdict, error) {
	enough := time.After(patience)
	for announced := false; ; announced = true {
		verdict, err := meet.Call(ctx, address, node, token, func(in io.Reader, out io.Writer) error { return agent.Run(ctx, in, out) })
		if !errors.Is(err, meet.ErrNotYet) {
			return verdict, err
		}
		if !announced && err != nil {
			fmt.Fprintln(os.Stderr, "preflight:", printable(err.Error())+"; waiting")
		}
		select {
		case <-enough:
			return verdict, fmt.Errorf("%w within %s", err, patience)
		case <-ctx.Done():
			return verdict, context.Cause(ctx)
		case <-time.After(callInterval):
		}
	}
}
