// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"preflight"
	"preflight/checks"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/cmd/preflight/internal/usage"
	"preflight/explain"
	"preflight/internal/secret"
	"preflight/report"
)

func explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [LOG|DIRECTORY|-] … [-H hostfile]",
		Short: "Find the cause in the log of a job that died",
		Long: `Read the log of a job that died and find the cause. explain prints the root cause first,
with the lines that show it and what to do. It also names the check that finds the problem
before the next launch. It lists follow-up errors and harmless messages separately.

Give one file, one file per node or rank, or a directory of logs. Files may be compressed
with gzip, bzip2, xz or zstd. With -H or -w, explain also runs the checks that it names.

Exit codes: 0 the log shows a job that ran without a failure, 1 a known cause was found or the
program itself failed, 2 something failed for an unknown reason, no sign of success was found,
or a log could not be read.`,
		Example: `  preflight explain train.log
  deepspeed --hostfile hostfile train.py 2>&1 | preflight explain
  preflight explain logs/w1.log logs/w2.log -H hostfile`,
		RunE: configured(func(cmd *cobra.Command, config Config, args []string) error {
			read := map[string]string{}
			for _, log := range args {
				read["the log "+log] = log
			}
			if err := config.writable(outputs.Product{Formats: plainFormats}, read); err != nil {
				return err
			}
			sources, err := logs(cmd.Context(), args)
			if err != nil {
				return err
			}
			catalogue, err := explain.Load()
			if err != nil {
				return err
			}
			explained := report.Explained{Version: Version, Report: catalogue.Explain(sources)}
			for _, log := range explained.Unread {
				complain(os.Stderr, fmt.Errorf("%s: %s", log.File, log.Reason))
			}
			var unrun error
			if cmd.Flags().Changed("hostfile") || cmd.Flags().Changed("hosts") {
				explained.Run, unrun = config.pointedTo(cmd, explained.Report)
			}
			explained.ExitCode = exitStatus(explained)
			if err := errors.Join(config.writeExplained(explained), unrun); err != nil || explained.ExitCode == exitPass {
				return err
			}
			return exitCode(explained.ExitCode)
		}),
	}
	launchFlags(cmd.Flags())
	progressFlag(cmd.Flags())
	judgeFlags(cmd, plainFormats)
	cmd.Flags().Lookup("output").Usage = "write the report to FILE: as JSON if its name ends with .json, otherwise as text"
	cmd.Flags().Lookup("hostfile").Usage = "run the checks that explain names, on the nodes in this DeepSpeed hostfile"
	showOnly(cmd, "hostfile", "hosts", "include", "exclude", "ssh_port", "python", "accelerator", "timeout", "format", "output", "verbose", "progress", "quiet")
	return cmd
}

// logs returns the logs to read. The files of a directory are sorted by name.
func logs(ctx context.Context, args []string) ([]explain.Source, error) {
	if len(args) == 0 {
		if term.IsTerminal(int(os.Stdin.Fd())) {
			return nil, usage.WithHint(errors.New("no log given"), "name one: preflight explain train.log; or use a pipe: deepspeed … 2>&1 | preflight explain")
		}
		args = []string{"-"}
	}
	var sources []explain.Source
	for _, arg := range args {
		if arg == "-" {
			if slices.ContainsFunc(sources, func(s explain.Source) bool { return s.Name == standardInput }) {
				return nil, errors.New("- is given twice: standard input can only be read once")
			}
			sources = append(sources, source(ctx, standardInput, func() (io.ReadCloser, error) { return os.Stdin, nil }))
			continue
		}
		if slices.ContainsFunc(sources, func(s explain.Source) bool { return s.Name == filepath.Clean(arg) }) {
			continue
		}
		if info, err := os.Stat(arg); err != nil || !info.IsDir() {
			sources = append(sources, logFile(ctx, filepath.Clean(arg))) // reading the file reports an error if it cannot be read
			continue
		}
		files, err := textFiles(arg)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s: no text file in this directory", arg)
		}
		for _, file := range files {
			sources = append(sources, logFile(ctx, file))
		}
	}
	return sources, nil
}

const standardInput = "standard input"

func logFile(ctx context.Context, path string) explain.Source {
	return source(ctx, path, func() (io.ReadCloser, error) { return os.Open(path) })
}

var errInterrupted = errors.New("interrupted: the result covers the log up to here")

// source returns a log whose reading ends at Ctrl-C, even if nothing is written to the log. explain
// can then report on the text that it has read.
func source(ctx context.Context, name string, open func() (io.ReadCloser, error)) explain.Source {
	return explain.Source{Name: name, Open: func() (io.ReadCloser, error) {
		out, in := io.Pipe()
		go func() {
			file, err := open()
			if err != nil {
				in.CloseWithError(usage.Reason(err))
				return
			}
			defer file.Close()
			_, err = io.Copy(in, file)
			in.CloseWithError(err)
		}()
		context.AfterFunc(ctx, func() { in.CloseWithError(errInterrupted) })
		return out, nil
	}}
}

// notLogs lists the extensions of text files that are often next to logs. Source code and settings
// mention errors that never happened.
var notLogs = []string{".c", ".cc", ".cfg", ".conf", ".cpp", ".cu", ".csv", ".h", ".html", ".ini", ".ipynb", ".js", ".json", ".jsonl", ".md", ".py", ".rst", ".sbatch", ".sh", ".sub", ".toml", ".tsv", ".xml", ".yaml", ".yml"}

// textFiles returns the files below a directory that may be logs. It skips hidden and binary files,
// so that a user can name a directory with checkpoints.
func textFiles(directory string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != directory && entry.Name()[0] == '.':
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && isLog(path) {
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

// isLog reports whether a file has the name and the first bytes of a log. It returns true for a
// file that cannot be read, so that reading it reports why.
func isLog(path string) bool {
	if slices.Contains(notLogs, filepath.Ext(path)) {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		return true
	}
	defer file.Close()
	var start [explain.Sniffed]byte
	n, _ := io.ReadFull(file, start[:])
	return explain.Readable(start[:n])
}

// pointedTo runs the checks that the causes point to, on the nodes of a hostfile. It returns nil if
// the causes point to no check.
func (c Config) pointedTo(cmd *cobra.Command, r explain.Report) (*checks.Report, error) {
	var only []string
	for _, cause := range r.Causes {
		for _, id := range cause.Checks {
			if !slices.Contains(only, id) {
				only = append(only, id)
			}
		}
	}
	if len(only) == 0 {
		fmt.Fprintln(os.Stderr, "preflight: no check covers what was found in the log, so preflight runs none")
		return nil, nil
	}
	if blind := explain.NeedCommand(only); len(blind) > 0 {
		fmt.Fprintf(os.Stderr, "preflight: not checked: %s, because explain does not have the launch command. Run %s\n", strings.Join(blind, ", "), explain.CheckCommand(blind))
	}
	c.Only, c.Skip = only, nil
	if port := r.Causes[0].MasterPort; port != 0 && !cmd.Flags().Changed("master_port") {
		c.MasterPort = port
	}
	if address := r.Causes[0].MasterAddr; address != "" && !cmd.Flags().Changed("master_addr") {
		c.MasterAddr = address
	}
	policy, err := c.policy()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	job, closeJob, err := c.job(cmd.Context(), nil)
	if err != nil {
		return nil, err
	}
	defer closeJob()
	job.Policy = policy
	judged := c.stamped(preflight.Run(cmd.Context(), job), job.Plan, began)
	return &judged, nil
}

func (c Config) writeExplained(e report.Explained) error {
	secret.Within(&e)
	return outputs.Deliver(c.outputs(), func(w io.Writer, format string, style report.Style) error {
		if format == "json" {
			return report.JSON(w, e)
		}
		style.Verbose, style.Quiet = c.Verbose, c.Quiet
		if err := report.Explanation(w, e.Report, style); err != nil || e.Run == nil {
			return err
		}
		fmt.Fprintf(w, "\n%s\n\n", report.Now)
		return report.Text(w, *e.Run, style)
	})
}

// exitStatus returns the worse exit code of the logs and the checks. 1 is worse than 2.
func exitStatus(e report.Explained) int {
	if e.Run != nil && (e.Report.ExitCode == exitPass || e.Run.ExitCode == exitFail) {
		return e.Run.ExitCode
	}
	return e.Report.ExitCode
}
