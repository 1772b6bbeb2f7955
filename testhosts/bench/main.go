// SPDX-License-Identifier: Apache-2.0

// Command bench holds the figures that are promised, beside preflight's peers and in one
// run: a bare x/crypto login (the floor below which nothing that speaks ssh from Go can
// get), pdsh, clush, parallel-ssh, and preflight cold and warm, on namespace hosts with a
// real sshd; and what the benchmarks of the packages say of larger fleets.
//
// Seconds differ from machine to machine, so nearly all that is promised is a ratio, and
// how busy the machine was otherwise is told beside it. It exits 1 when a promise is broken
// and refuses to promise anything that its table does not hold.
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
	flag.IntVar(&b.nodes, "n", 128, "hosts to raise")
	flag.IntVar(&b.most, "rounds", 8, "rounds at most")
	only := flag.String("only", "", "measure the rows whose names match this expression")
	floorOf := flag.String("floor", "", "") // what the floor's process is
	flag.Parse()
	if *floorOf != "" {
		os.Exit(floor(*floorOf))
	}
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

// bench is one run of everything.
type bench struct {
	nodes, most int
	others      *watch // of what else the machine does

	self, preflight string // programs
	contenders      []*contender
	gobench         map[string]metrics // what go test printed, by package and expression
}

func (b *bench) run(ctx context.Context, only string) (kept bool, err error) {
	if b.self, err = os.Executable(); err != nil {
		return false, err
	}
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

// measureAt measures the rows that take hosts of a place, which are up for as long.
func (b *bench) measureAt(ctx context.Context, where place, rows []promise, outcomes []outcome) (err error) {
	var here *testhosts.Cluster
	for i, row := range rows {
		if row.on.name != where.name {
			continue
		}
		if size := where.size(b); here == nil && size > 0 {
			fmt.Fprintf(os.Stderr, "bench: raising %d hosts\n", size)
			if here, err = b.raise(ctx, where.name, size); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, here.Down()) }()
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", row.name)
		outcomes[i] = row.measure(ctx, b, here)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// raise raises hosts that have a torch for processors alone: without any, nobody could
// tell of the launch.
func (b *bench) raise(ctx context.Context, name string, nodes int) (*testhosts.Cluster, error) {
	cluster, err := testhosts.Raise(ctx, testhosts.Options{
		Name: name, Nodes: nodes, Share: []string{filepath.Dir(b.self), filepath.Dir(b.preflight)},
	})
	if err != nil {
		return nil, err
	}
	for _, node := range cluster.Nodes {
		if _, err := node.CPUTorch("2.5.1+cpu"); err != nil {
			return nil, errors.Join(err, cluster.Down())
		}
	}
	return cluster, nil
}

// argv is preflight over all hosts of a cluster.
func (b *bench) argv(more ...string) []string {
	return append([]string{b.preflight, "-H", testhosts.HostfilePath, "--accelerator", "cpu", "-o", os.DevNull}, more...)
}
