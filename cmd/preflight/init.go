// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"preflight"
	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/software"
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
that differ between nodes are commented out. init also writes the flags that you give it,
its settings in the environment, such as PREFLIGHT_ACCELERATOR, and the Python interpreter
that has torch. It then prints what a run with this policy would report now. init never
overwrites a file.

Exit codes: 0 the file was written, 2 it was not written or lacks some nodes.`,
		Example: `  preflight init -H hostfile
  preflight init --from golden.json -o preflight.yaml`,
		Args: noArguments,
		RunE: configured(func(cmd *cobra.Command, config Config, _ []string) error {
			path, err := config.policyPath(cmd.Flags())
			if err != nil {
				return err
			}
			seen, err := config.stateNow(cmd, from)
			if err != nil {
				return err
			}
			return config.writePolicy(cmd, path, seen)
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

// stateNow returns the facts and the launch of a new run, or of a saved run if from is not "". If
// the nodes' usual interpreter has no torch but another one does, stateNow sets Python to it and
// returns the facts for that one.
func (c *Config) stateNow(cmd *cobra.Command, from string) (checks.Report, error) {
	if from != "" {
		return readReport(from)
	}
	seen, err := c.look(cmd)
	if err != nil || hasTorch(seen) || c.Python != "" || seen.Launch.Interpreter != "" {
		return seen, err
	}
	other := software.Elsewhere(reachedOf(seen))
	if active := activePython(); other == "" && active != "" {
		other = active
	}
	if other == "" {
		return seen, nil
	}
	usual := *c
	c.Python = other
	again, err := c.look(cmd)
	if err == nil && hasTorch(again) {
		return again, nil
	}
	*c = usual
	return seen, err
}

func (c *Config) look(cmd *cobra.Command) (seen checks.Report, err error) {
	job, closeJob, err := c.job(cmd.Context(), nil)
	if err != nil {
		return seen, err
	}
	defer closeJob()
	seen.Fleet, seen.Launch = preflight.Look(cmd.Context(), job)
	seen.Hostfile = c.source(job.Plan)
	if cmd.Context().Err() != nil {
		return seen, errors.New("interrupted: init writes no policy from incomplete facts")
	}
	return seen, nil
}

// activePython returns the interpreter of the environment that is active in the user's shell, or ""
// if none is.
func activePython() string {
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		python := filepath.Join(os.Getenv(name), "bin", "python")
		if info, err := os.Stat(python); err == nil && filepath.IsAbs(python) && info.Mode().IsRegular() {
			return python
		}
	}
	return ""
}

func reachedOf(seen checks.Report) (reached []*facts.Node) {
	for i := range seen.Nodes {
		if seen.Nodes[i].Reached {
			reached = append(reached, &seen.Nodes[i])
		}
	}
	return reached
}

func hasTorch(seen checks.Report) bool {
	return slices.ContainsFunc(reachedOf(seen), func(node *facts.Node) bool { return node.Python != nil && node.Python.Torch != nil })
}

// ofOneRun lists the settings that select the nodes of a run or show its progress. They are no
// settings of a policy.
var ofOneRun = []string{"hostfile", "hosts", "include", "exclude", "num_nodes", "num_gpus", "force_multi", "jobid", "callback", "meet_listen", "meet_token_file", "timeout", "progress", "quiet", "output"}

// settingsToKeep returns the settings without which a later run would check another launch than
// this run: the flags that were typed, the settings in the environment, and the interpreter.
func (c Config) settingsToKeep(cmd *cobra.Command, seen checks.Report) (kept []report.PolicySetting) {
	for _, s := range settings(cmd.Root()) {
		flag := cmd.Flags().Lookup(s.key)
		if flag == nil || s.key == "python" || slices.Contains(ofOneRun, s.key) {
			continue
		}
		value := os.Getenv(variable(s.key))
		if flag.Changed {
			value = flag.Value.String()
		}
		if value != "" {
			kept = append(kept, report.PolicySetting{Key: s.key, Value: value})
		}
	}
	switch python := cmp.Or(c.Python, seen.Launch.Interpreter); {
	case python != "":
		kept = append(kept, report.PolicySetting{Key: "python", Value: python})
	case !hasTorch(seen):
		about := "No node has torch for the Python in its PATH. Name the interpreter of the launch, or skip the check."
		others := []string{"/path/to/venv/bin/python"}
		if reached := reachedOf(seen); len(reached) > 0 && reached[0].Python != nil && reached[0].Python.Elsewhere != nil {
			others = reached[0].Python.Elsewhere
		}
		for _, other := range others {
			kept = append(kept, report.PolicySetting{About: about, Key: "python", Value: other, Off: true})
			about = ""
		}
		kept = append(kept, report.PolicySetting{Key: "skip", Value: software.TorchSame.ID, Off: true})
	}
	return kept
}

// writePolicy writes the policy, and prints what a run with it would report now.
func (c Config) writePolicy(cmd *cobra.Command, path string, seen checks.Report) error {
	reached := text.Map(reachedOf(seen), func(node *facts.Node) string { return node.Name })
	if len(reached) == 0 {
		return usage.WithHint(errors.New("no node was reached: there is nothing to write a policy from"), "to see why: preflight -H hostfile")
	}
	var draft bytes.Buffer
	if err := report.PolicyDraft(&draft, reached, c.settingsToKeep(cmd, seen), agreement.Drafts(seen.Nodes)); err != nil {
		return err
	}
	lost, next, incomplete := lostNodes(seen), toCommit, error(nil)
	if lost != nil {
		next, incomplete = "", exitCode(exitTrouble)
		fmt.Fprintf(os.Stderr, "preflight: %d of %d nodes were not reached and are not part of the policy\n", len(lost), len(seen.Nodes))
	}
	if path == "-" {
		_, err := os.Stdout.Write(draft.Bytes())
		return cmp.Or(err, incomplete)
	}
	if lost != nil {
		whole := path
		path += partialEnding
		fmt.Fprintf(os.Stderr, "preflight: %s is not written; the incomplete policy goes to %s\npreflight: %s\n", text.Escape(whole), text.Escape(path), replaceHint(seen, whole, path))
		if err := (outputs.Output{Asked: path, Path: path}).Put(draft.Bytes()); err != nil {
			return err
		}
	} else if err := create(path, draft.Bytes()); err != nil {
		return err
	}
	c.reportWritten(path, len(reached), len(seen.Nodes), next)
	return cmp.Or(c.wouldSay(cmd, path, seen), incomplete)
}

// create writes a file that must not exist yet.
func create(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return thereAlready(path)
	}
	if err != nil {
		return outputs.CannotWrite(path, err)
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// wouldSay prints the verdict and the findings of a run with the policy that was just written, on
// the facts that it was written from.
func (c Config) wouldSay(cmd *cobra.Command, path string, seen checks.Report) error {
	if c.Quiet {
		return nil
	}
	if err := cmd.Flags().Set("config", path); err != nil {
		return err
	}
	later, err := readConfig(cmd, typedLaunch{})
	if err != nil {
		return err
	}
	policy, err := later.policy()
	if err != nil {
		return err
	}
	later.Format, later.Output, later.Quiet = "text", nil, true
	fmt.Println("A run with this policy would now report:")
	return later.write(rejudge(seen, policy))
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
