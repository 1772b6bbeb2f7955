// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"fmt"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
)

// part takes those of other users out of who is of an earlier job, as they are not ours to end, and
// of who meets elsewhere.
func (j *job) part(elsewhere []member) {
	j.strangers = slices.DeleteFunc(slices.Concat(elsewhere, j.left), j.owns)
	j.others = slices.DeleteFunc(slices.Clone(elsewhere), func(m member) bool { return !j.owns(m) })
	j.left = slices.DeleteFunc(j.left, func(m member) bool { return !j.owns(m) })
}

// shares is that other jobs run on the nodes, of which they have their part.
func (j *job) shares() (waits []Wait) {
	told := map[[2]string]bool{}
	for _, m := range slices.Concat(j.others, j.strangers) {
		what := "another user's job runs there too: " + m.User + "'s " + cmp.Or(m.Script, m.Program, "job")
		if j.owns(m) {
			at := m.told()
			if at.Port == 0 {
				continue
			}
			what = fmt.Sprintf("another job runs there too: `"+aboutEndpoint+"` is about that one", hostPort(at.Address, at.Port))
		}
		at := slices.IndexFunc(waits, func(w Wait) bool { return w.What == what })
		if at < 0 {
			at = len(waits)
			waits = append(waits, Wait{What: what})
		}
		if one := [2]string{what, m.node.Name}; !told[one] {
			told[one], waits[at].Nodes = true, append(waits[at].Nodes, m.node.Name)
		}
	}
	return waits
}

// occupied is that another user's process takes the calls where the ranks of this job meet.
func (j *job) occupied() (findings []checks.Finding) {
	first := j.first()
	for _, m := range j.strangers {
		if m.listens(j.most.Port) && (first == nil || first.node == m.node) {
			findings = append(findings, checks.Finding{Nodes: []string{m.node.Name},
				Summary: fmt.Sprintf("%s of another user's job, %s's, takes the calls at port %d, where this job meets", m.number(), m.User, j.most.Port),
				Remedy:  []fix.Command{fix.Here("deepspeed --master_port=%s …", fix.Number(j.most.Port+1)).Remark("for this job")}})
		}
	}
	return findings
}
