// SPDX-License-Identifier: Apache-2.0

// Command bench checks preflight's performance targets. In one run it compares cold and warm runs
// of preflight with pdsh, which logs in to every host and runs hostname. The hosts are namespaces
// with a real sshd. For larger fleets bench runs the packages' benchmarks.
//
// Nearly all targets are ratios of processor time, which bench measures with control groups: one
// for the hosts, and one for the launching machine. Seconds differ between machines and depend on
// other programs. bench also prints the load of the machine. It exits with 1 if a target is missed.
// The table of its output has all targets, and says for each whether it is kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"preflight/testhosts"
)

func main() {
	var b bench
	flag.IntVar(&b.nodes, "n", 64, "number of hosts")
	flag.IntVar(&b.most, "rounds", 8, "maximum number of rounds")
	only := flag.String("only", "", "measure the rows whose names match this expression")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	kept, err := b.run(ctx, *only)
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(2)
	}
	if !kept {
		os.Exit(1)
	}
}

// bench is one run of all measurements.
type bench struct {
	nodes, most int
	others      *watch // measures the load that other programs cause

	preflight  string             // path of the program
	account    *testhosts.Account // of the hosts that are up
	contenders []*contender
	gobench    map[string]metrics // results of go test, by package and expression
}

func (b *bench) run(ctx context.Context, only string) (kept bool, err error) {
	if b.preflight, err = filepath.Abs("bin/preflight"); err != nil {
		return false, err
	}
	rows, err := chosen(only)
	if err != nil {
		return false, err
	}
	b.others = watchOthers()
	outcomes := make([]outcome, len(rows))
	for _, where := range places {
		if err := b.measureAt(ctx, where, rows, outcomes); err != nil {
			return false, err
		}
	}
	b.printContenders()
	kept = printPromises(rows, outcomes)
	fmt.Println(b.others.words())
	return kept, ctx.Err()
}

// measureAt measures the rows that need the hosts of a place. The hosts are up only during these
// measurements.
func (b *bench) measureAt(ctx context.Context, where place, rows []promise, outcomes []outcome) (err error) {
	var here *testhosts.Cluster
	for i, row := range rows {
		if row.on.name != where.name {
			continue
		}
		if size := where.size(b); here == nil && size > 0 {
			fmt.Fprintf(os.Stderr, "bench: starting %d hosts\n", size)
			if here, err = b.raise(ctx, where.name, size); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, here.Down(), b.account.Close()) }()
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", row.name)
		outcomes[i] = row.measure(ctx, b, here)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// raise starts hosts that have a torch for the CPU. Without torch the verdict on the launch would
// be unknown.
func (b *bench) raise(ctx context.Context, name string, nodes int) (*testhosts.Cluster, error) {
	cluster, err := testhosts.Raise(ctx, testhosts.Options{
		Name: name, Nodes: nodes, Share: []string{filepath.Dir(b.preflight)},
	})
	if err != nil {
		return nil, err
	}
	for _, node := range cluster.Nodes {
		if _, err := node.CPUTorch("2.5.1+cpu"); err != nil {
			return nil, errors.Join(err, cluster.Down())
		}
	}
	if b.account, err = cluster.Account(); err != nil {
		return nil, errors.Join(err, cluster.Down())
	}
	return cluster, nil
}

// argv returns the command line of a preflight run over all hosts of a cluster.
func (b *bench) argv(more ...string) []string {
	return append([]string{b.preflight, "-H", testhosts.HostfilePath, "--accelerator", "cpu", "-o", os.DevNull}, more...)
}
