// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"testing"

	"preflight/facts"
	"preflight/remote"
)

// TestLearnOfLate checks that a drill without an answer from a busy node says nothing about the
// node. If the drill loses the node, the failure must be recorded.
func TestLearnOfLate(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		reached bool
	}{
		"late":        {fmt.Errorf("%w to login within 4.5 s", remote.ErrNoAnswer), true},
		"frozen":      {&remote.Error{Cause: remote.Frozen, Err: remote.ErrNoAnswer}, false},
		"interrupted": {&remote.Error{Cause: remote.Interrupted, Err: remote.ErrNoAnswer}, true},
	} {
		m := &member{Node: &facts.Node{Name: "w1", Reached: true, Missing: map[facts.Section]string{}}}
		m.SSH = &facts.SSH{}
		learn(m, &m.Logins, facts.SectionLogins, facts.Logins{}, c.err)
		if m.Reached != c.reached || (m.SSH.Cause == "") != c.reached {
			t.Errorf("%s: reached %v by %+v", name, m.Reached, m.SSH)
		}
		if m.Logins != nil || m.Missing[facts.SectionLogins] == "" {
			t.Errorf("%s: the section is not missing", name)
		}
	}
}
