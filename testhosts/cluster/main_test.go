// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test binary act as the command cluster.
func TestMain(m *testing.M) {
	if os.Getenv("CLUSTER_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is the path of the command cluster, "" for the test binary.
var program string

func cluster(args ...string) (output string, status int) {
	cmd := exec.Command(cmp.Or(program, os.Args[0]), args...)
	cmd.Env = append(os.Environ(), "CLUSTER_MAIN=1")
	out, _ := cmd.CombinedOutput() // the exit status is part of main's contract
	return string(out), cmd.ProcessState.ExitCode()
}

// TestLife starts, inspects, breaks, heals and removes a cluster. Every step is a separate process,
// as when people use the command.
func TestLife(t *testing.T) {
	if os.Geteuid() != 0 {
		fmt.Fprintf(os.Stderr, "NOT RUN: %s starts namespace hosts, which needs root; run the tests with sudo\n", t.Name())
		t.Skip("needs root")
	}
	// The nodes have the preflight in the program's directory in their PATH.
	dir := t.TempDir()
	program = filepath.Join(dir, "cluster")
	t.Cleanup(func() { program = "" })
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{program: self, filepath.Join(dir, "preflight"): []byte("#!/bin/sh\necho the preflight in PATH\n")} {
		if err := os.WriteFile(file, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	name := fmt.Sprintf("life%d", os.Getpid())
	t.Cleanup(func() { cluster("down", "-name", name) })
	steps := []struct {
		args   string
		status int
		prints string
	}{
		{"exec -name NAME w1 -- hostname", 1, "no cluster of that name is up"},
		{"up -name NAME -n 2 -slots 3", 0, "exec -name NAME head -- preflight -H /root/hostfile"},
		{"up -name NAME -n 2", 1, "remove it first with"},
		{"list", 0, "NAME\t2 nodes, head NAME-head\n"},
		{"exec -name NAME head -- ssh w2 preflight", 0, "the preflight in PATH"},
		{"exec -name NAME head -- cat /root/hostfile", 0, "w1 slots=3\nw2 slots=3\n"},
		{"exec -name NAME w2 -- sh -c exit\t9", 9, ""},
		{"exec -name NAME w3 -- hostname", 1, "has no node w3"},
		{"fault -name NAME nothing w2", 1, "unknown fault nothing"},
		{"fault -name NAME nic-name w9 w2", 1, "has no node w9"},
		{"fault -name NAME nic-name w2", 0, ""},
		{"exec -name NAME w2 -- ls /sys/class/net", 0, "enp4s0\nlo\n"},
		{"heal -name NAME w2", 0, ""},
		{"exec -name NAME w2 -- ls /sys/class/net", 0, "eth0\nlo\n"},
		{"fault -name NAME workdir-missing w2", 0, ""},
		{"exec -name NAME head -- ssh w2 ls job", 2, "cannot access"},
		{"heal -name NAME w2", 0, ""},
		{"exec -name NAME head -- ssh w2 ls job", 0, "train.py\n"},
		// A node that cannot write the healed node's key again is an error, and is healed itself.
		{"exec -name NAME w1 -- sh -c rm\t.ssh/known_hosts;mount\t-o\tremount,ro\t/root", 0, ""},
		{"heal -name NAME w2 w1", 1, "Read-only file system"},
		{"exec -name NAME w1 -- touch /root/healed", 0, ""},
		{"fault -name NAME", 0, "home-read-only"},
		{"down -name NAME", 0, ""},
		{"exec -name NAME w1 -- hostname", 1, "no cluster of that name is up"},
		{"down -name NAME", 0, ""},
		{"sideways", 2, "usage:"},
	}
	for _, step := range steps {
		args := strings.Split(strings.ReplaceAll(step.args, "NAME", name), " ")
		output, status := cluster(args...)
		if want := strings.ReplaceAll(step.prints, "NAME", name); status != step.status || !strings.Contains(output, want) {
			t.Fatalf("cluster %s: exit status %d, want %d; printed %q, want %q", args, status, step.status, output, want)
		}
	}
	if output, _ := cluster("list"); strings.Contains(output, name) {
		t.Errorf("after down: %q", output)
	}
}

// TestFaultTable checks that every fault in the table can be caused.
func TestFaultTable(t *testing.T) {
	output, status := cluster("fault")
	if status != 0 || strings.Count(output, "\n") != len(faults) {
		t.Errorf("exit status %d, printed %q", status, output)
	}
	for line := range strings.Lines(output) {
		name := strings.Fields(line)[0]
		// preflight's fix for a real node has no effect on these nodes, because they have no PAM.
		if (name == "memlock" || name == "open-files") && !strings.Contains(line, "limits.conf") {
			t.Errorf("%s does not say where the limit is set: %q", name, line)
		}
	}
	seen := map[string]bool{}
	for _, f := range faults {
		if seen[f.name] || f.does == "" || f.plant == nil {
			t.Errorf("%q is listed twice or incomplete", f.name)
		}
		seen[f.name] = true
	}
}
