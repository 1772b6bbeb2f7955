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
// srun and its options, hosts the nodes that should answer. A node's ranks in the result are as many
// as the times that srun started the echo there.
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
		node := facts.RehearsalNode{Node: host, Ranks: []int{}}
		for range strings.Count(out+"\n", token+host+"\n") {
			node.Ranks = append(node.Ranks, len(node.Ranks))
		}
		result.Nodes = append(result.Nodes, node)
	}
	for line := range strings.Lines(said) {
		result.Complaints = append(result.Complaints, strings.TrimSpace(line))
	}
	return result
}
