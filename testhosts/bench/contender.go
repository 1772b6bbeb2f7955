// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"preflight/testhosts"
)

// contender is a command on the launching machine that contacts every node. Its results of each
// round are the duration in seconds, and the processor time of the launching machine and of the
// nodes in milliseconds per node.
type contender struct {
	name      string
	argv      func(b *bench, names []string) []string
	cold      bool // the nodes are cleaned before the command starts
	preflight bool // the command may exit with 1, because it may find problems on the hosts

	seconds, head, node sample
}

// These are the measured commands, in the order of a round. In "warm" and "cold" the nodes also
// connect to each other. OpenSSH's default key exchange takes most of pdsh's processor time, so
// there are two yardsticks: pdsh as it is, and pdsh with the key exchange that preflight asks for.
const (
	pdsh      = "pdsh -R ssh hostname"
	lightPdsh = "pdsh -R ssh hostname, curve25519 first"
	cold      = "preflight, cold"
	warm      = "preflight, warm"
)

func table() []*contender {
	hostname := func(_ *bench, of []string) []string {
		return []string{"pdsh", "-R", "ssh", "-f", "1024", "-w", strings.Join(of, ","), "hostname"}
	}
	return []*contender{
		{name: pdsh, argv: hostname},
		{name: lightPdsh, argv: func(b *bench, of []string) []string {
			return append([]string{"env", "PDSH_SSH_ARGS_APPEND=-oKexAlgorithms=^curve25519-sha256"}, hostname(b, of)...)
		}},
		{name: cold, argv: func(b *bench, _ []string) []string { return b.argv() }, cold: true, preflight: true},
		{name: warm, argv: func(b *bench, _ []string) []string { return b.argv() }, preflight: true},
	}
}

// contestTime is the time after which no new round begins. All measurements together then take less
// than ten minutes.
const contestTime = 3 * time.Minute

// contest runs all contenders in turn, round after round, until the ratios between their results
// are stable. The first round warms up shared caches and does not count.
func (b *bench) contest(ctx context.Context, cluster *testhosts.Cluster) error {
	if b.contenders != nil {
		return nil
	}
	contenders, began := table(), time.Now()
	for round := range b.most + 1 {
		b.others.look()
		for _, c := range contenders {
			if err := c.measure(ctx, b, cluster); err != nil {
				return err
			}
			if round == 0 {
				c.seconds, c.head, c.node = nil, nil, nil
			}
		}
		settled := !slices.ContainsFunc(contenders[1:], func(c *contender) bool { return !c.both().by(contenders[0].both()).stable() })
		fmt.Fprintf(os.Stderr, "bench: round %d of %d at most\n", round, b.most)
		if round > 0 && (settled || time.Since(began) > contestTime) {
			break
		}
	}
	b.contenders = contenders
	return nil
}

// measure runs a contender once.
func (c *contender) measure(ctx context.Context, b *bench, cluster *testhosts.Cluster) error {
	if c.cold {
		if err := b.clean(ctx, cluster); err != nil {
			return err
		}
	}
	var names []string
	for _, node := range cluster.Nodes {
		names = append(names, node.Name)
	}
	head, node, err := b.account.CPU()
	if err != nil {
		return err
	}
	took, err := b.onHead(ctx, cluster, c.preflight, c.argv(b, names)...)
	if err != nil {
		return err
	}
	headAfter, nodeAfter, err := b.account.CPU()
	if err != nil {
		return err
	}
	nodes := float64(len(names))
	c.seconds = append(c.seconds, took.Seconds())
	c.head = append(c.head, milliseconds(headAfter-head)/nodes)
	c.node = append(c.node, milliseconds(nodeAfter-node)/nodes)
	return nil
}

// both returns the processor time of the launching machine and of a node together.
func (c *contender) both() sample {
	sum := slices.Clone(c.head)
	for i := range sum {
		sum[i] += c.node[i]
	}
	return sum
}

// onHead runs a command on the launching machine and returns its duration.
func (b *bench) onHead(ctx context.Context, cluster *testhosts.Cluster, judges bool, argv ...string) (took time.Duration, err error) {
	cmd := cluster.OnHead(ctx, argv...)
	b.account.Charge(cmd)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	began := time.Now()
	err = cmd.Run()
	took = time.Since(began)
	ended, is := errors.AsType[*exec.ExitError](err)
	if err != nil && !(judges && is && ended.ExitCode() == 1) {
		return 0, fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, stderr.String())
	}
	return took, nil
}

// clean removes what earlier runs have left on the nodes.
func (b *bench) clean(ctx context.Context, cluster *testhosts.Cluster) error {
	_, err := b.onHead(ctx, cluster, false, b.preflight, "clean", "-H", testhosts.HostfilePath)
	return err
}

// of returns the contender with this name. If the contest has not run yet, of runs it first.
func (b *bench) of(name string) *contender {
	return b.contenders[slices.IndexFunc(b.contenders, func(c *contender) bool { return c.name == name })]
}

func (b *bench) printContenders() {
	if b.contenders == nil {
		return
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "%d hosts, %d rounds\tseconds\tCPU a node: launching machine\tnode\tboth, times pdsh\ttimes pdsh with curve25519 first\n", b.nodes, len(b.contenders[0].seconds))
	for _, c := range b.contenders {
		fmt.Fprintf(out, "%s\t%s\t%.1f ms\t%.1f ms\t%.2f\t%.2f\n", c.name, c.seconds.text(2), c.head.median(), c.node.median(),
			c.both().by(b.of(pdsh).both()).median(), c.both().by(b.of(lightPdsh).both()).median())
	}
	out.Flush()
}
