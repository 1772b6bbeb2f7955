// SPDX-License-Identifier: Apache-2.0

package flight

import (
	"cmp"
	"fmt"
	"strings"

	"preflight/facts"
)

func lastOf(rank int, c Call) string {
	if c.Op == "" {
		return fmt.Sprintf("rank %d has made no call", rank)
	}
	return fmt.Sprintf("the last call of rank %d is %s of %s, %s%s", rank, numbered(c), groupName(c.Group, c.Desc), c.state(), since(c))
}

func (g *group) String() string { return groupName(g.name, g.desc) }

func groupName(name, desc string) string {
	if desc == "" || desc == "undefined" {
		return "group " + cmp.Or(name, "0")
	}
	return fmt.Sprintf("group %s (%s)", cmp.Or(name, "0"), desc)
}

func numbered(c Call) string {
	if c.Between {
		return fmt.Sprintf("%s (call %d)", c.Op, c.Number)
	}
	return fmt.Sprintf("%s number %d", c.Op, c.Number)
}

func (c Call) sized() string {
	if c.Shape == "" {
		return c.Op
	}
	return strings.TrimSpace(c.Op + " of " + c.Shape + " " + c.Type)
}

// state is that of a call in words; of one whose end nobody is told it is not known.
func (c Call) state() string {
	if c.Vague {
		return "made"
	}
	return cmp.Or(c.State, "made")
}

// since is where a program made a call, where its frames are kept.
func since(c Call) string {
	if c.From == "" {
		return ""
	}
	return " (" + c.From + ")"
}

// do is that ranks do something.
func do(ranks []int, one, many string) string {
	if len(ranks) == 1 {
		return named(ranks) + " " + one
	}
	return named(ranks) + " " + many
}

func named(ranks []int) string {
	if len(ranks) == 1 {
		return "rank " + facts.Ranges(ranks)
	}
	return "ranks " + facts.Ranges(ranks)
}
