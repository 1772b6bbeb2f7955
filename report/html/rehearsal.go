// SPDX-License-Identifier: Apache-2.0

package html

import (
	"fmt"
	"strings"

	"preflight/checks"
	"preflight/facts"
	"preflight/internal/text"
)

// printout is what a launcher or a rank of the rehearsal printed. All its texts are escaped.
type printout struct {
	Who string // the machine and the launcher or rank, and how it ended
	// Lines are the lines of the output; of a rank, its error and its stack.
	Lines []string
}

// mostPrintouts is the maximum number of launchers and ranks on the page, which keeps it small. The
// JSON report has all of them.
const mostPrintouts = 64

// rehearsal returns the output of the rehearsal's launchers and ranks that printed something. The
// launching machine comes first, then the nodes in hostfile order.
func rehearsal(r checks.Report) (all []printout, more int) {
	add := func(who, output string) {
		if output = strings.TrimSpace(output); output == "" {
			return
		}
		if len(all) == mostPrintouts {
			more++
			return
		}
		all = append(all, printout{text.Escape(who), text.Map(strings.Split(output, "\n"), text.Escape)})
	}
	of := func(name string, seen *facts.Rehearsed) {
		if seen == nil {
			return
		}
		if p := seen.Program; p != nil {
			how := fmt.Sprintf("exit code %d", p.ExitCode)
			if p.Problem != "" {
				how = p.Problem
			}
			add(fmt.Sprintf("%s, launcher, %s", name, how), p.Output)
		}
		for _, rank := range seen.Ranks {
			who := fmt.Sprintf("%s, rank %d, stage %s", name, rank.Rank, rank.Stage)
			if rank.End != "" {
				who += ", " + rank.End
			}
			add(who, rank.Error+"\n"+rank.Trace)
		}
	}
	if r.Head != nil {
		of("launching machine", r.Head.Rehearsed)
	}
	for _, node := range r.Nodes {
		of(node.Name, node.Rehearsed)
	}
	return all, more
}
