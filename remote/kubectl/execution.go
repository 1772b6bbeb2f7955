// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"maps"
	"os/exec"
	"slices"

	"preflight/remote"
	"preflight/remote/engine"
)

// execution is one kubectl exec. Its failures name the pod.
type execution struct {
	remote.Connection
	detail map[string]string
}

// enter returns a kubectl exec into a pod. words are its options. kubectl puts the command into the
// URL of its request, for which proxies may allow only a few kilobytes. The command is therefore
// sent on standard input.
func (c *Carrier) enter(pod string, words []string, detail map[string]string) execution {
	by := engine.Engine{
		Name: Name, Typed: true, Explain: explain,
		Program: func(pod string, argv []string) *exec.Cmd {
			return exec.Command(c.program, slices.Concat([]string{"exec", "--stdin", pod}, words, []string{"--"}, argv)...)
		},
	}
	return execution{detail: detail, Connection: by.Connect(pod)}
}

func (e execution) Broken() *remote.Error { return e.detailed(e.Connection.Broken()) }

// detailed adds the pod to a failure. It returns nil for nil.
func (e execution) detailed(failure *remote.Error) *remote.Error {
	if failure != nil {
		if failure.Detail == nil {
			failure.Detail = map[string]string{}
		}
		maps.Copy(failure.Detail, e.detail)
	}
	return failure
}

func (e execution) LookOut(ctx context.Context) remote.Lookout {
	return lookout{e.Connection.LookOut(ctx), e}
}

type lookout struct {
	remote.Lookout
	execution execution
}

func (l lookout) Tell(failure *remote.Error) {
	l.Lookout.Tell(failure)
	l.execution.detailed(failure)
}
