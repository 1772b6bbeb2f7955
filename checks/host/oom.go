// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/internal/text"
)

// OOMKill reports processes that the kernel has killed. It runs only if the user asks for it. Such a
// kill explains why a job died, but it does not mean that the next launch will fail.
var OOMKill = checks.Check{
	ID:       "oom-kill",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionKernelLog},
	Volatile: true,
	Run:      judgeKills,
}

// showKills prints the kernel's own messages about processes that it killed.
var showKills = fix.On("sudo dmesg -T | grep -i 'killed process'").Outside().As(fix.Look)

// useLess is the step for ranks that need more memory than there is.
var useLess = fix.Note("or let the ranks use less memory: fewer DataLoader workers, less offload to the CPU, fewer ranks on the node")

func judgeKills(view checks.View) (findings []checks.Finding) {
	reaches := math.Inf(1)
	for _, node := range view.Nodes {
		log := node.KernelLog
		if log.Unread != "" {
			f := checks.UnknownFor(node, "the kernel's log cannot be read: "+log.Unread)
			f.Remedy = []fix.Command{showKills.Remark("shows the processes that the kernel killed; no line means none")}
			findings = append(findings, f)
			continue
		}
		reaches = min(reaches, log.Reaches)
		newestFirst := slices.Clone(log.OOMKills)
		slices.Reverse(newestFirst)
		for _, of := range text.GroupBy(newestFirst, func(kill facts.OOMKill) bool { return kill.Limited }) {
			findings = append(findings, checks.OfNode(node, killsOf(node, of.All))...)
		}
	}
	if len(findings) == 0 {
		return []checks.Finding{{Verdict: checks.Pass, Summary: "the kernel's log shows no such kill in the last " + text.Duration(reaches)}}
	}
	return findings
}

// shownKills is the maximum number of kills that a finding describes.
const shownKills = 3

// killsOf returns the finding for the kills of a node that have the same reason, the newest first.
func killsOf(node *facts.Node, kills []facts.OOMKill) checks.Finding {
	described := text.Map(kills, func(kill facts.OOMKill) string {
		size, at := "", ""
		if kill.RSS > 0 {
			size = ", " + humanize.IBytes(uint64(kill.RSS))
		}
		if kill.Cgroup != "" {
			at = " at the limit of " + kill.Cgroup
		}
		return fmt.Sprintf("%s (pid %d%s) %s ago%s", kill.Process, kill.PID, size, text.Duration(math.Round(kill.Age)), at)
	})
	f := checks.Finding{
		Summary: fmt.Sprintf("the kernel killed %s, because the machine had no memory left", kills[0].Process),
		Got:     text.Some(described, shownKills),
		Want:    "no process that the kernel killed for lack of memory",
		Remedy: []fix.Command{
			fix.On("ps -eo pid,user,rss,etime,cmd --sort=-rss | head").Remark("shows what uses the memory now").As(fix.Look),
			fix.Note("end the processes that are no longer needed"),
			useLess,
		},
	}
	if kills[0].Limited {
		f.Summary = fmt.Sprintf("the kernel killed %s, because a cgroup reached its memory limit", kills[0].Process)
		f.Remedy = append(raiseLimit(node, kills[0].Cgroup), useLess)
	}
	return f
}

// raiseLimit returns the commands that raise the memory limit of a cgroup. The cgroup of a container or
// a session may be gone by now, so only the limits of units of systemd have a command.
func raiseLimit(node *facts.Node, cgroup string) []fix.Command {
	isUnit := slices.Contains([]string{".slice", ".service"}, path.Ext(cgroup))
	switch {
	case cgroup != "" && !isUnit && !strings.Contains(cgroup, "/slurm") && !strings.Contains(cgroup, "/kubepods"):
		return []fix.Command{fix.Note("raise the memory limit of the container, job or session whose cgroup was %s", fix.Text(cgroup))}
	case cgroup == "":
		return remedy.RaiseMemory(node, "")
	case node.Memory != nil && path.Base(node.Memory.CgroupFile) == "memory.limit_in_bytes": // version 1 of cgroups
		return remedy.RaiseMemory(node, path.Join("/sys/fs/cgroup/memory", cgroup, "memory.limit_in_bytes"))
	}
	return remedy.RaiseMemory(node, path.Join("/sys/fs/cgroup", cgroup, "memory.max"))
}
