// Command score holds explain against logs whose causes are known: a directory
// with logs/, labels.tsv (file, cause) and ambiguous.tsv (file, other causes that
// the text permits, too). It prints every miss and a table of causes.
package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"

	"preflight/explain"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: score DIRECTORY (with logs/, labels.tsv and ambiguous.tsv)")
		os.Exit(2)
	}
	if err := score(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "score:", err)
		os.Exit(1)
	}
}

type tally struct{ logs, right int }

func (t *tally) add(right bool) {
	t.logs++
	if right {
		t.right++
	}
}

func score(w io.Writer, corpus string) error {
	catalogue, err := explain.Load()
	if err != nil {
		return err
	}
	trials, err := try(catalogue, os.DirFS(corpus))
	if err != nil {
		return err
	}
	perCause, all := map[string]*tally{}, tally{}
	for _, trial := range trials {
		if perCause[trial.want] == nil {
			perCause[trial.want] = &tally{}
		}
		perCause[trial.want].add(trial.right)
		all.add(trial.right)
		switch {
		case !trial.right:
			fmt.Fprintf(w, "MISS %s: %s, is %s\n", trial.file, trial.got, trial.want)
		case trial.got == program:
			fmt.Fprintf(w, "told %s: the program's own\n", trial.file)
		}
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cause := range slices.Sorted(maps.Keys(perCause)) {
		fmt.Fprintf(columns, "%s\t%d of %d\n", cause, perCause[cause].right, perCause[cause].logs)
	}
	fmt.Fprintf(columns, "all\t%d of %d\t%.1f %%\n", all.right, all.logs, 100*float64(all.right)/float64(max(1, all.logs)))
	return columns.Flush()
}
