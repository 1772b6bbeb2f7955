// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/hostfile"
	"preflight/internal/text"
)

// policyHead and policyTail say what else a policy may hold, as comments.
const (
	policyHead = `# The policy of this fleet: what preflight expects of its nodes. Review it, commit it
# beside the hostfile, and preflight reads it there. It was written from what %s,
# and what nodes differ in is commented out: decide, and take the # away.
#
# is: a version (">=570.86", ">=2.4, <2.6"), a size (">=16GiB"), a plain value, a list
# of allowed values, or "absent". nodes: 'gpu[01-16]', or '@name' of a group. A stated
# expectation beats what most nodes have. preflight facts lists the names.

# Names for node sets, to be used as '@name':
# groups:
#   training: '%s'

`
	policyTail = `
# The severity of a check: error, warning or off (preflight checks lists them).
# severity:
#   - check: clock-skew
#     severity: error

# Defects that are known: shown, and not counted, up to and including a day.
# waivers:
#   - check: shm-size
#     nodes: '%s'
#     reason: the image is rebuilt next week
#     owner: cluster team
#     until: 2026-12-31
`
)

// PolicyDraft writes a policy that a team begins with. Texts of nodes are quoted so
// that YAML reads them back as they are, and none ends a comment.
func PolicyDraft(w io.Writer, nodes []string, drafts []agreement.Draft) error {
	var out strings.Builder
	first := ""
	if len(nodes) > 0 {
		first = nodes[0]
	}
	fmt.Fprintf(&out, policyHead, text.Plural(len(nodes), "node")+" showed", text.Escape(hostfile.Fold(nodes)))
	out.WriteString("expect:\n")
	none := true
	for _, d := range drafts {
		mark := ""
		if d.About != "" {
			fmt.Fprintf(&out, "  # %s\n", d.About)
		}
		if len(d.Groups) > 1 {
			groups := Map(d.Groups, func(g checks.FactGroup) string {
				return Value(d.Fact, g.Value) + " on " + text.Escape(hostfile.Fold(g.Nodes))
			})
			fmt.Fprintf(&out, "  # the nodes differ: %s\n", strings.Join(groups, ", "))
			mark = "# "
		}
		none = none && mark != ""
		fmt.Fprintf(&out, "  %s- fact: %s\n  %s  is: %s\n", mark, plainWord(d.Fact), mark, strconv.QuoteToASCII(d.Is))
	}
	draft := out.String()
	if none {
		draft = strings.Replace(draft, "\nexpect:\n", "\nexpect: []\n", 1)
	}
	_, err := io.WriteString(w, draft+fmt.Sprintf(policyTail, text.Escape(first)))
	return err
}

// plainWord is a fact's path, quoted where YAML would not take it for plain text.
func plainWord(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == "" {
		return path
	}
	return strconv.QuoteToASCII(path)
}
