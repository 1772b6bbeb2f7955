// SPDX-License-Identifier: Apache-2.0

// Package agent defines everything that a run can ask the agents on its nodes. For each request it
// holds the type of the question, the type of the answer and the implementation.
//
// The package is linked into the program that runs on a node. It therefore does not import what
// only the launching machine needs: the launch, the order of requests, and the checks.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"preflight/diagnose/jobs"
	"preflight/drill"
	"preflight/drill/mesh"
	"preflight/drill/rehearse"
	"preflight/drill/shared"
	"preflight/drill/smoke"
	"preflight/facts"
	"preflight/probe"
	"preflight/remote"
)

// These are the requests that an agent answers.
var (
	Join     = request[drill.Join]("join")
	Call     = request[mesh.Calls]("mesh")
	Send     = request[Sending]("send")
	LogIn    = request[drill.Logins]("login")
	GoToHub  = request[drill.Hub]("hub")
	Identify = request[Endpoint]("endpoint")
	ListJobs = request[Listing]("jobs")
	Stacks   = request[drill.Stacks]("stacks")
	// Listen accepts the connections of the mesh. Its answer lists the addresses and ports on which
	// it listens.
	Listen = service("listen", func(ctx context.Context, listen mesh.Listen, ready func([]mesh.Listening) error) error {
		listener, err := mesh.Open(listen)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if err = ready(listener.Listening()); err != nil {
			cancel() // Serve closes its listeners and connections
		}
		listener.Serve(ctx)
		return err
	})
	// HoldTurn waits until no other preflight measures. Its answer says that this preflight may
	// start, or that another one is still measuring.
	HoldTurn = service("turn", func(ctx context.Context, turn drill.Turn, ready func(drill.Had) error) error {
		return turn.Hold(ctx, ready)
	})
	// Muster starts the ranks of the smoke test and answers when they are ready. Command then gives
	// the ranks orders.
	Muster = service("muster", func(ctx context.Context, crew smoke.Crew, ready func(smoke.Mustered) error) error {
		return crew.Hold(ctx, ready)
	})
	Command = request[smoke.Orders]("command")
	// Rehearse delivers the stand-in script of a rehearsal, and then reports what the ranks report.
	// ControlRehearsal starts a launcher or ends the rehearsal.
	Rehearse = service("rehearse", func(ctx context.Context, delivery rehearse.Delivery, report func(rehearse.Report) error) error {
		return delivery.Hold(ctx, report)
	})
	ControlRehearsal = request[rehearse.Control]("rehearsal")
	// Put makes a node write files into directories and keep them. Its answer says what it wrote.
	// Look makes a node look for the files of others.
	Put = service("put", func(ctx context.Context, put shared.Put, ready func(shared.Written) error) error {
		return put.Hold(ctx, ready)
	})
	Look = request[shared.Look]("look")
	// Serve serves a store for a rendezvous. Its answer is the store's address.
	Serve = service("serve", func(ctx context.Context, host drill.Host, ready func(drill.Serving) error) error {
		return host.Serve(ctx, func(s drill.Serving) { _ = ready(s) }) // if the launching machine is gone, stdin ends, and that ends this process
	})
)

// Sending says to whom Send sends, and for how long.
type Sending struct {
	Token string        `json:"token"`
	Node  string        `json:"node"`
	To    mesh.Peer     `json:"to"`
	For   time.Duration `json:"for"`
}

// Run sends as fast as possible.
func (s Sending) Run(ctx context.Context) facts.Throughput {
	return mesh.Send(ctx, s.Token, s.Node, s.To, s.For)
}

// Endpoint is a host:port with the time limit for finding out which process answers there.
type Endpoint struct {
	Endpoint string        `json:"endpoint"`
	Deadline time.Duration `json:"deadline"`
	Of       drill.Run     `json:"run"` // the run whose ranks meet at the endpoint, as far as preflight knows it
}

// Run finds out which process answers at the endpoint.
func (e Endpoint) Run(ctx context.Context) facts.Endpoint {
	seen := drill.Identify(ctx, e.Endpoint, e.Deadline)
	seen.Gathering, seen.Roll = drill.Gather(ctx, seen, e.Of)
	return seen
}

// Listing asks for the processes of launches, and for the processes at a port. A port of 0 stands
// for no port. If Watch is positive, the agent also watches for that time what the ranks do.
type Listing struct {
	Port  int           `json:"port"`
	Watch time.Duration `json:"watch,omitempty"`
}

// Listed holds the processes, or the reason why they could not be listed.
type Listed struct {
	Jobs    *facts.Jobs `json:"jobs,omitempty"`
	Problem string      `json:"problem,omitempty"`
}

// Run lists the processes.
func (l Listing) Run(ctx context.Context) Listed {
	own, err := jobs.OwnAddresses()
	if err != nil {
		return Listed{Problem: "cannot read the node's own addresses: " + err.Error()}
	}
	seen, err := jobs.Look(ctx, probe.Options{}, l.Port, own, l.Watch)
	if err != nil {
		return Listed{Problem: err.Error()}
	}
	return Listed{Jobs: seen}
}

// Run answers requests until in ends. The agent binary does nothing else on a node.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	return remote.Serve(ctx, in, out, Methods())
}

var methods = map[string]remote.Method{nameProbe: answerProbe}

// Methods returns the agent's methods by request name. The result is a copy that the caller may
// change.
func Methods() map[string]remote.Method { return maps.Clone(methods) }

// nameProbe is the name of the only request that is answered in several parts, one per section.
const nameProbe = "probe"

// Probing says what a node must report.
type Probing struct {
	Sections []facts.Section `json:"sections"`
	// Options holds the encoded probe.Options. They are the same for every node, so they are
	// encoded only once.
	Options json.RawMessage `json:"options"`
	// All nodes together look up Hosts names. Names and Peers list the names that this node looks
	// up.
	Names []string          `json:"names,omitempty"`
	Peers map[string]string `json:"peers,omitempty"`
	Hosts int               `json:"hosts,omitempty"`
	// AddressCommand is the command that the launch runs in this node's login shell, "" for none.
	AddressCommand string `json:"address_command,omitempty"`
	// Deadline is the time limit for all sections together: the part of the node's time that the
	// login has not used. The agent gives up a hanging section before preflight gives up the agent.
	Deadline time.Duration `json:"deadline"`
}

// Probed holds the facts of one section, or the reason why the section is missing.
type Probed struct {
	Seen    facts.Facts `json:"seen"`
	Missing string      `json:"missing,omitempty"`
}

// Probe makes a node report its sections. It calls each with the name of every section and an
// encoded Probed. The Probed has not been validated, because preflight does not trust nodes.
func Probe(ctx context.Context, at *remote.Agent, p Probing, each func(part string, body json.RawMessage)) error {
	return at.Call(ctx, nameProbe, p, each)
}

func answerProbe(ctx context.Context, params json.RawMessage, reply remote.Reply) error {
	probing, err := decode[Probing](params)
	if err != nil {
		return err
	}
	options, err := decode[probe.Options](probing.Options)
	if err != nil {
		return err
	}
	options.Deadline = probing.Deadline
	options.Names, options.Peers, options.Hosts = probing.Names, probing.Peers, probing.Hosts
	options.AddressCommand = probing.AddressCommand
	left := len(probing.Sections)
	probe.Run(ctx, options, probing.Sections, func(section facts.Section, seen facts.Facts, missing string) {
		// If a reply cannot be written, the launching machine is gone. In that case stdin ends, and
		// that ends this process.
		left--
		err := reply(string(section), Encode(Probed{seen, missing}), left == 0)
		if errors.Is(err, remote.ErrOversize) {
			_ = reply(string(section), Encode(Probed{Missing: "the answer is " + err.Error() + ": check this node by hand"}), left == 0)
		}
	})
	return nil
}

func decode[Message any](text json.RawMessage) (message Message, err error) {
	if err := json.Unmarshal(text, &message); err != nil {
		return message, fmt.Errorf("malformed %T: %w", message, err)
	}
	return message, nil
}

// Encode returns a value as JSON.
func Encode[Value any](value Value) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		panic("preflight: " + err.Error()) // encoding a plain value never fails
	}
	return text
}
