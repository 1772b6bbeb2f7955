// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"fmt"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
)

// srunFindings judges what the srun of the command did with an echo in place of torchrun. torchrun
// must start once on each node.
func srunFindings(view checks.View) []checks.Finding {
	tried := view.Head.Rehearsal
	if tried == nil {
		return checks.Skipped("srun starts torchrun on every node")
	}
	nodes := fix.Number(len(view.Launch.Hosts))
	f := checks.Finding{Remedy: []fix.Command{fix.Here("srun --nodes=%s --ntasks=%s …", nodes, nodes)}}
	for _, line := range tried.Complaints { // srun warns before it fails
		if f.Got == "" || strings.Contains(line, "error:") && !strings.Contains(f.Got, "error:") {
			f.Got, f.WouldSee = line, line
		}
	}
	for _, answer := range tried.Nodes {
		if len(answer.Ranks) == 0 {
			f.Nodes = append(f.Nodes, answer.Node)
		}
	}
	switch {
	case tried.Problem != "":
		return []checks.Finding{{Verdict: checks.Unknown, Nodes: []string{view.Head.Name}, Summary: "preflight could not find out what srun starts: " + tried.Problem, Got: f.Got,
			Remedy: []fix.Command{fix.Here("squeue --steps --me").Remark("other steps may hold what this one asks for").As(fix.Look)}}}
	case tried.ExitCode != 0 && len(f.Nodes) == len(tried.Nodes):
		f.Nodes, f.Summary, f.Want = []string{view.Head.Name}, "srun with its options does not start an echo", "exit code 0"
		f.Remedy = []fix.Command{fix.Here("srun … hostname").Remark("with the options of the launch").As(fix.Look)}
	case len(f.Nodes) > 0:
		f.Summary, f.Want = "srun with its options starts nothing on it", "srun starts the command on each node of the launch"
		f.WouldSee = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"
	default:
		return startedTwice(tried.Nodes, f)
	}
	return []checks.Finding{f}
}

// startedTwice returns a finding for the nodes on which srun starts the command more than once.
func startedTwice(answers []facts.RehearsalNode, f checks.Finding) []checks.Finding {
	for _, answer := range answers {
		if len(answer.Ranks) > 1 {
			f.Nodes, f.Got = append(f.Nodes, answer.Node), fmt.Sprintf("%d times", len(answer.Ranks))
		}
	}
	if f.Nodes == nil {
		return nil
	}
	f.Summary, f.Want, f.WouldSee = "srun starts the launcher more than once on it", "once on each node", "RendezvousConnectionError: The connection to the C10d store has failed."
	return []checks.Finding{f}
}
