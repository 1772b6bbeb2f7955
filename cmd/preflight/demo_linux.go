// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"preflight/checks"
	"preflight/cmd/preflight/internal/usage"
	"preflight/report"
	"preflight/testhosts"
	broken "preflight/testhosts/demo"
)

func cannotRaise() string { return broken.Lacking() }

// demo starts a cluster, breaks it and runs preflight on its launching machine. It removes the
// cluster at the end, also after Ctrl-C.
func demo(ctx context.Context, config Config) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// If a reader such as head exits early, preflight must keep running to remove the hosts.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	fmt.Fprintln(os.Stderr, "starting 8 hosts on this machine, each with its own network, /dev/shm and sshd")
	cluster, err := testhosts.Raise(ctx, testhosts.Options{Name: "demo", Nodes: 8, Share: []string{filepath.Dir(self)}})
	if errors.Is(err, testhosts.ErrExists) {
		return usage.WithHint(err, "another demo is running, or one was killed; to remove it: bin/cluster down -name demo")
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Down()) }()
	shown := broken.Usual
	if config.Smoke != smokeNone {
		shown = broken.Smoke
	}
	if err := shown.Break(cluster, os.Stderr); err != nil {
		return err
	}
	argv := append([]string{self, "-H", testhosts.HostfilePath}, shown.Words...)
	if len(shown.Skip) > 0 {
		argv = append(argv, "--skip", strings.Join(shown.Skip, ","))
	}
	fmt.Fprintf(os.Stderr, "\n# preflight %s\n\n", strings.Join(argv[1:], " "))
	// This process writes the report, because the hosts have their own /tmp.
	var found bytes.Buffer
	main := cluster.OnHead(ctx, append(argv, "--format", "json")...)
	main.Dir, main.Stdout, main.Stderr = "/root", &found, os.Stderr
	for _, name := range []string{"TERM", "NO_COLOR"} {
		if value := os.Getenv(name); value != "" {
			main.Env = append(main.Env, name+"="+value)
		}
	}
	err = main.Run()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return errors.New("preflight found nothing wrong with a broken cluster")
	case !errors.As(err, &ended) || ended.ExitCode() != exitFail:
		return fmt.Errorf("preflight: %w", err)
	}
	saved, err := report.Read(&found)
	if err != nil {
		return fmt.Errorf("preflight: %w", err)
	}
	// A saved run lacks parts of the findings that the report needs, so the saved facts are checked
	// again.
	policy := checks.DefaultPolicy()
	policy.Skip = shown.Skip
	judged := rejudge(saved, policy)
	if err := config.write(judged); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "\npreflight exited with 1, as expected: %d hosts are broken\n", len(shown.Faults))
	return nil // the demo succeeds, because it exists to report faults
}
