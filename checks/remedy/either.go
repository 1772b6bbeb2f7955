// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"slices"

	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/hostfile"
)

// EitherWay returns the remedies for a difference between two groups of nodes of equal size. There
// is one alternative for each group that may be right. install returns the commands that give the
// nodes of a difference the values in its Want fields. EitherWay returns nil if there are more than
// two groups, or if install knows no command.
func EitherWay(d compare.Difference, install func(compare.Difference) []fix.Command) (commands []fix.Command) {
	groups := d.Deviations[0].Groups
	for right := range groups {
		if len(groups) != 2 {
			return nil
		}
		towards := compare.Difference{Nodes: groups[1-right].Nodes}
		for _, dev := range d.Deviations {
			if len(dev.Groups) != 2 || !slices.Equal(dev.Groups[0].Nodes, groups[0].Nodes) {
				return nil
			}
			towards.Deviations = append(towards.Deviations, compare.Deviation{
				Name: dev.Name, Got: dev.Groups[1-right].Value, Want: dev.Groups[right].Value,
			})
		}
		for _, command := range install(towards) {
			if command.Role() == fix.Look {
				return nil
			}
			command = command.At(towards.Nodes...)
			if nodes := fix.Text(hostfile.Fold(groups[right].Nodes)); len(groups[right].Nodes) == 1 {
				command = command.Remark("if %s is right", nodes)
			} else {
				command = command.Remark("if %s are right", nodes)
			}
			commands = append(commands, command.As(fix.Or))
		}
	}
	return commands
}
