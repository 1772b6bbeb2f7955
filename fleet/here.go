// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"io"
	"net"

	"preflight/agent"
	"preflight/facts"
	"preflight/remote"
)

// hereReason says why drills do not run for a launch that stays on this machine.
const hereReason = "there is no hostfile: the ranks start on this machine"

// drillHere runs a drill with the ranks of a launch on this machine. It returns "" if the drill ran,
// otherwise the reason why not. This process is the agent of these ranks.
func (job Job) drillHere(ctx context.Context, fleet *facts.Fleet, d Drill) (notTried string) {
	r := job.newRun(fleet)
	if why := d.notTried(r); why != "" {
		return why
	}
	if why := r.switchedOff(d); why != "" {
		return why
	}
	client := remote.New(localCarrier{}, remote.Options{Timeout: job.Timeout, Nodes: 1})
	defer client.Close()
	talking, _, err := client.Reach(ctx, fleet.Nodes[0].Name)
	if err != nil {
		fleet.Nodes[0].Missing[d.Section] = err.Error()
		return ""
	}
	r.members = members{{Node: &fleet.Nodes[0], agent: talking}}
	defer r.members.close()
	r.Prediction = r.Prediction.Resolved(fleet.Nodes)
	d.run(r, ctx, d)
	return ""
}

// localCarrier connects to this machine, where the agent is a part of this process.
type localCarrier struct{}

func (localCarrier) Dial(context.Context, string) (remote.Connection, *remote.Trace, error) {
	ours, theirs := net.Pipe()
	return &localConnection{ours, theirs, make(chan struct{})}, &remote.Trace{}, nil
}

func (localCarrier) Files([]string) int { return 0 }

func (localCarrier) Close() error { return nil }

// localConnection is the connection to an agent in this process.
type localConnection struct {
	net.Conn // the launching machine's end of the pipe
	agentEnd net.Conn
	ended    chan struct{} // closed when the agent has ended
}

func (t *localConnection) Start(string, io.Writer) (*remote.Process, *remote.Error) {
	status := 0
	go func() {
		defer close(t.ended)
		defer t.agentEnd.Close()
		if agent.Run(context.Background(), t.agentEnd, t.agentEnd) != nil { // Run returns when the connection ends
			status = 1
		}
	}()
	return &remote.Process{Running: true, Stdin: t.Conn, Stdout: t.Conn, Wait: func() remote.Exit {
		<-t.ended
		return remote.Exit{Status: status}
	}}, nil
}

func (t *localConnection) Wait() error {
	<-t.ended
	return nil
}

func (t *localConnection) Alive() bool { return true }

func (t *localConnection) Broken() *remote.Error { return nil }

func (t *localConnection) LookOut(context.Context) remote.Lookout { return noLookout{} }

// noLookout does nothing, because there is no other machine to watch.
type noLookout struct{}

func (noLookout) Tell(*remote.Error) {}

func (noLookout) Dismiss() {}
