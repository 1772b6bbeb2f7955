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
	"preflight/testhosts/gpus"
)

type demoFault struct {
	node  string
	what  string
	plant func(*testhosts.Node) (testhosts.Undo, error)
}

// scenario describes one kind of demo.
type scenario struct {
	faults  []demoFault
	prepare func(*testhosts.Node) error
	words   []string // arguments of preflight
	skip    []string // checks whose results mean nothing on these hosts
}

var scenarios = map[bool]scenario{ // the key says whether --smoke is given
	false: {demoFaults, equipped, []string{"--timeout", "10s"}, nil},
	true:  {smokeFaults, withLibraries, []string{"--num_gpus", "1", "--smoke"}, []string{"gpu-copies", "collective-speed"}}, // the processors of one machine do all the copying
}

// smokeFaults lists two faults that no other check finds.
var smokeFaults = []demoFault{
	{"w3", "NCCL waits for the other ranks forever", twoGPUs("ncclCommInitRankConfig", "hang")},
	{"w6", "a GPU computes wrong results", twoGPUs("cuLaunchKernel", "wrong")},
}

// twoGPUs gives a node two GPUs with simulated libcuda and libnccl. One call fails on the first
// GPU.
func twoGPUs(call, how string) func(*testhosts.Node) (testhosts.Undo, error) {
	machine := gpus.H100s(2)
	machine.NCCL, machine.Cards[0].Trouble = true, map[string]string{call: how}
	return func(n *testhosts.Node) (testhosts.Undo, error) { return n.SetDriver(machine) }
}

func withLibraries(node *testhosts.Node) error {
	machine := gpus.H100s(2)
	machine.NCCL = true
	if _, err := node.SetDriver(machine); err != nil {
		return err
	}
	_, err := node.CUDATorch("2.5.1+cu124", "12.4")
	return err
}

// demoFaults lists faults that typically cost people days.
var demoFaults = []demoFault{
	{"w1", "docker0 comes before the network card", (*testhosts.Node).AddDocker0First},
	{"w2", "/dev/shm of 64 MiB, docker's default", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.ShrinkSHM(64 << 20)
	}},
	{oddPackage, "another version of protobuf", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.OtherPackage("protobuf", "5.29.1")
	}},
	{"w4", ".bashrc prints a greeting", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.NoisyShell("Welcome to the cluster")
	}},
	{"w5", "host key differs from the one in known_hosts", (*testhosts.Node).ChangeHostKey},
	{"w6", "firewall drops everything", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.Drop()
	}},
	{"w7", "firewall allows only ssh", func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.Drop("1:21", "23:65535")
	}},
	{"w8", "driver upgraded, but the old kernel module is still loaded", func(n *testhosts.Node) (testhosts.Undo, error) {
		driver := gpus.H100s(8)
		driver.Module = "535.161.08"
		return n.SetDriver(driver)
	}},
}

// demoPrograms lists the programs that the demo needs, with their Debian packages. A released
// preflight does not contain testhosts/apt.sh, which installs them.
var demoPrograms = []struct{ program, its string }{
	{"/usr/sbin/sshd", "openssh-server"},
	{"/usr/sbin/iptables", "iptables"},
	{"/usr/bin/python3", "python3"},
	{"/usr/bin/cc", "gcc libc6-dev"},
}

func cannotRaise() string {
	if os.Geteuid() != 0 {
		return "starting hosts needs root (sudo preflight demo)"
	}
	for _, one := range demoPrograms {
		if _, err := os.Stat(one.program); err != nil {
			return "starting hosts needs " + one.program + " (apt-get install " + one.its + ")"
		}
	}
	return ""
}

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
	shown := scenarios[config.Smoke != smokeNone]
	if err := breakCluster(cluster, shown); err != nil {
		return err
	}
	argv := append([]string{self, "-H", testhosts.HostfilePath}, shown.words...)
	if len(shown.skip) > 0 {
		argv = append(argv, "--skip", strings.Join(shown.skip, ","))
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
	policy.Skip = shown.skip
	judged := rejudge(saved, policy)
	if err := config.write(judged); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "\npreflight exited with 1, as expected: %d hosts are broken\n", len(shown.faults))
	return nil // the demo succeeds, because it exists to report faults
}

// oddPackage is the node that gets another version of protobuf.
const oddPackage = "w3"

// equipped gives a node GPUs and a matching torch. It also installs protobuf, in the same version
// on every node but one.
func equipped(node *testhosts.Node) error {
	if _, err := node.SetGPUs(8); err != nil { // one per slot
		return err
	}
	if _, err := node.CUDATorch("2.5.1+cu124", "12.4"); err != nil {
		return err
	}
	if node.Name == oddPackage {
		return nil
	}
	_, err := node.OtherPackage("protobuf", "4.25.3")
	return err
}

// breakCluster prepares every node and then breaks them.
func breakCluster(cluster *testhosts.Cluster, shown scenario) error {
	for _, node := range cluster.Nodes {
		if err := shown.prepare(node); err != nil {
			return err
		}
	}
	for _, fault := range shown.faults {
		node, err := cluster.Node(fault.node)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "breaking %s: %s\n", fault.node, fault.what)
		if _, err := fault.plant(node); err != nil {
			return fmt.Errorf("breaking %s: %w", fault.node, err)
		}
	}
	return nil
}
