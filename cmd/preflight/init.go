// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"preflight"
	"preflight/checks/agreement"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/cmd/preflight/internal/usage"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/report"
)

func initCommand() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "init {-H hostfile | --from golden.json} [-o preflight.yaml]",
		Short: "Write preflight.yaml from the nodes' current state",
		Long: `Write a starter preflight.yaml with your team's requirements, based on the nodes' current
state. Versions, sizes and MTUs that are the same on all nodes become requirements. Values
that differ between nodes are commented out. init never overwrites a file.

Exit codes: 0 the file was written, 2 the file was not written.`,
		Example: `  preflight init -H hostfile
  preflight init --from golden.json -o preflight.yaml`,
		Args: noArguments,
		RunE: configured(func(cmd *cobra.Command, config Config, _ []string) error {
			path, err := config.policyPath(cmd.Flags())
			if err != nil {
				return err
			}
			nodes, err := config.nodesNow(cmd, from)
			if err != nil {
				return err
			}
			return config.writePolicy(path, nodes)
		}),
	}
	launchFlags(cmd.Flags())
	progressFlag(cmd.Flags())
	cmd.Flags().StringVar(&from, "from", "", "write the file from this saved run, without contacting any node")
	cmd.Flags().StringArrayP("output", "o", nil, "write to FILE, or to standard output if FILE is - (default: preflight.yaml in the hostfile's directory)")
	cmd.Flags().BoolP("quiet", "q", false, "show neither progress nor a message about the file")
	return cmd
}

// policyPath returns the path of the file to write. It is the path of -o, or else of the file that
// a later run reads.
func (c Config) policyPath(flags *pflag.FlagSet) (string, error) {
	hosts, err := launchHostfile(flags, typedLaunch{})
	path := besideHostfile(hosts)
	switch {
	case err != nil:
		return "", err
	case len(c.Output) > 1:
		return "", errors.New("-o is given twice: init writes one file")
	case len(c.Output) == 1:
		path = c.Output[0]
	}
	if _, err := os.Lstat(path); err == nil {
		return "", thereAlready(path)
	}
	return path, nil
}

func thereAlready(path string) error {
	return usage.WithHint(fmt.Errorf("%s already exists: init never overwrites a policy", path), "name another file with -o, and copy what you need")
}

// nodesNow returns the facts of the nodes from a new run, or from a saved run if from is not "".
func (c Config) nodesNow(cmd *cobra.Command, from string) ([]facts.Node, error) {
	if from != "" {
		saved, err := readReport(from)
		return saved.Nodes, err
	}
	job, closeJob, err := c.job(cmd.Context(), nil)
	if err != nil {
		return nil, err
	}
	defer closeJob()
	fleet, _ := preflight.Look(cmd.Context(), job)
	if cmd.Context().Err() != nil {
		return nil, errors.New("interrupted: init writes no policy from incomplete facts")
	}
	return fleet.Nodes, nil
}

func (c Config) writePolicy(path string, nodes []facts.Node) error {
	var reached []string
	for _, node := range nodes {
		if node.Reached {
			reached = append(reached, node.Name)
		}
	}
	if len(reached) == 0 {
		return usage.WithHint(errors.New("no node was reached: there is nothing to write a policy from"), "to see why: preflight -H hostfile")
	}
	var text bytes.Buffer
	if err := report.PolicyDraft(&text, reached, agreement.Drafts(nodes)); err != nil {
		return err
	}
	if lost := len(nodes) - len(reached); lost > 0 {
		fmt.Fprintf(os.Stderr, "preflight: %d of %d nodes were not reached and are not part of the policy\n", lost, len(nodes))
	}
	if path == "-" {
		_, err := os.Stdout.Write(text.Bytes())
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return thereAlready(path)
	}
	if err != nil {
		return outputs.CannotWrite(path, err)
	}
	_, err = file.Write(text.Bytes())
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	c.reportWritten(path, len(reached), len(nodes), toCommit)
	return nil
}

// toCommit is the advice about a file that a team shares.
const toCommit = "; review and commit it"

// reportWritten reports on standard error which file was written, and how many of the nodes it is
// based on.
func (c Config) reportWritten(path string, reached, all int, next string) {
	if c.Quiet {
		return
	}
	count := text.Plural(all, "node")
	if reached < all {
		count = fmt.Sprintf("%d of %s", reached, count)
	}
	fmt.Fprintf(os.Stderr, "preflight: %s: written from %s%s\n", text.Escape(path), count, next)
}
