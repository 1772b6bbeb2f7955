// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/text"
	"preflight/probe/machine"
)

const (
	// trialLimit is how long the login shell has to answer. A slow start-up file delays a launch
	// and does no other harm.
	trialLimit = 1500 * time.Millisecond
	// trialValue is the value of every variable in the question, so that no value of the launch
	// gets into a shell.
	trialValue = "preflight"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// tryExports makes the account's login shell read the exports that the launcher will type, as sshd makes
// it read a command, and reports which of them reach a program. It returns nil if no login shell
// reads the launch's exports, or if the shell does not answer in time.
func tryExports(ctx context.Context, o machine.Options) *facts.ExportTrial {
	names := slices.DeleteFunc(slices.Clone(o.TriedExports), func(name string) bool { return !variableName.MatchString(name) })
	shell := machine.Session(o).Shell
	cat, err := exec.LookPath("cat")
	if len(names) == 0 || shell == "" || err != nil || os.Getenv("SSH_CONNECTION") == "" {
		return nil
	}
	words := ""
	for _, name := range names {
		words += "export " + name + "=" + trialValue + "; "
	}
	asked := hostsys.Child{Path: shell, Args: []string{"-c", words + cat + " /proc/self/environ"}, Limit: trialLimit}
	environ, complaint, err := asked.Run(ctx)
	got := strings.Split(environ, "\x00")
	if err != nil || len(got) < 2 {
		return nil
	}
	// A start-up file may have printed lines before the first variable.
	got[0] = got[0][strings.LastIndexByte(got[0], '\n')+1:]
	answer := &facts.ExportTrial{Shell: shell, Lost: []string{}}
	for _, name := range names {
		if !slices.Contains(got, name+"="+trialValue) {
			answer.Lost = append(answer.Lost, name)
		}
	}
	if len(answer.Lost) > 0 {
		first, _, _ := strings.Cut(strings.TrimSpace(complaint), "\n")
		answer.Message = text.Escape(first)
	}
	return answer
}
