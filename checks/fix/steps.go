// SPDX-License-Identifier: Apache-2.0

package fix

// Steps returns the commands as the steps of one repair. The first Fix keeps its role, and each
// later one becomes Then.
func Steps(commands ...Command) []Command { return laterAs(Then, commands) }

// Alternatives returns the commands as a choice. The first Fix keeps its role, and each later one
// becomes Or.
func Alternatives(commands ...Command) []Command { return laterAs(Or, commands) }

func laterAs(role Role, commands []Command) []Command {
	fixes := 0
	for i, command := range commands {
		if command.Role() != Fix || command.place == note {
			continue
		}
		if fixes > 0 {
			commands[i] = command.As(role)
		}
		fixes++
	}
	return commands
}
