// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"context"
	"crypto/rand"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"time"

	"preflight/facts"
	"preflight/internal/hostsys"
)

// RehearseSrun runs srun with the user's own options and an echo in place of the command. words holds
// srun and its options, hosts the nodes that should answer. In the result, each start of the echo on a
// node counts as one of its ranks. Domains of names do not count, because Slurm's names usually have
// none. A node that answers and is no host is the result's Problem.
func RehearseSrun(ctx context.Context, words, hosts []string, limit time.Duration) facts.Rehearsal {
	token := "preflight-" + strings.ToLower(rand.Text()[:12]) + "-"
	command := slices.Concat(words, []string{"sh", "-c", "echo " + token + "$SLURMD_NODENAME"})
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	out, said, err := hostsys.Child{Path: command[0], Args: command[1:]}.Run(ctx)
	seconds := time.Since(began).Seconds()
	result := facts.Rehearsal{Command: words[:1], Seconds: seconds, Problem: unfinished(ctx, err, min(seconds, limit.Seconds()))} // the options may hold secrets
	if exit, isExit := errors.AsType[*exec.ExitError](err); isExit {
		result.ExitCode = exit.ExitCode()
	} else if err != nil {
		result.ExitCode = -1
	}
	for _, host := range hosts {
		result.Nodes = append(result.Nodes, facts.RehearsalNode{Node: host, Ranks: []int{}})
	}
	for word := range strings.FieldsSeq(out) {
		name, isEcho := strings.CutPrefix(word, token)
		if !isEcho {
			continue
		}
		i := slices.IndexFunc(hosts, func(host string) bool { return undomained(host) == undomained(name) })
		if i < 0 {
			result.Problem = name + " answered, which is no host of the launch under this name"
			continue
		}
		result.Nodes[i].Ranks = append(result.Nodes[i].Ranks, len(result.Nodes[i].Ranks))
	}
	for line := range strings.Lines(said) {
		result.Complaints = append(result.Complaints, strings.TrimSpace(line))
	}
	return result
}

func undomained(name string) string {
	short, _, _ := strings.Cut(name, ".")
	return short
}
