package preflight

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"preflight/drill"
	"preflight/facts"
	"preflight/probe"
	"preflight/remote"
)

// What an agent can be asked. Listen and serve last until they are cancelled.
const (
	methodProbe    = "probe"    // look at its machine
	methodListen   = "listen"   // take the calls of the mesh drill
	methodMesh     = "mesh"     // call the peers
	methodSend     = "send"     // send to a neighbour as fast as it goes
	methodServe    = "serve"    // serve a store for the rendezvous drill
	methodJoin     = "join"     // join a rendezvous
	methodLogin    = "login"    // log in to the peers by the node's own ssh
	methodEndpoint = "endpoint" // say what is at a host and port
)

// partAnswer is the one part of an answer that has only one.
const partAnswer = "answer"

// nodeSections are looked at on every node where the launch needs them,
// headSections on the launching machine; drillSections take several nodes.
var (
	nodeSections  = probe.Of(probe.Nodes)
	headSections  = probe.Of(probe.Head)
	drillSections = []facts.Section{facts.SectionMesh, facts.SectionRendezvous, facts.SectionLogins, facts.SectionThroughput}
)

// probeRequest is what methodProbe takes.
type probeRequest struct {
	Sections []facts.Section `json:"sections"`
	// Options are probe.Options, alike for every node and long for a long
	// hostfile, so that they are encoded once for all.
	Options json.RawMessage `json:"options"`
	// Deadline is for all sections together: what logging in has left of the
	// node's time, so that the agent gives a hung section up before we give up
	// the agent.
	Deadline time.Duration `json:"deadline"`
}

// sendRequest is what methodSend takes.
type sendRequest struct {
	Token string        `json:"token"`
	Node  string        `json:"node"`
	To    drill.Peer    `json:"to"`
	For   time.Duration `json:"for"`
}

// endpointRequest is what methodEndpoint takes.
type endpointRequest struct {
	Endpoint string        `json:"endpoint"`
	Deadline time.Duration `json:"deadline"`
}

func encode(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		panic("preflight: " + err.Error()) // plain values always encode
	}
	return text
}

// sectionReply is one section as it travels: seen, or missing with the reason.
type sectionReply struct {
	Seen    facts.Facts `json:"seen"`
	Missing string      `json:"missing,omitempty"`
}

// Agent answers the launching machine until in ends. It is what the binary
// does on a node.
func Agent(ctx context.Context, in io.Reader, out io.Writer) error {
	return remote.Serve(ctx, in, out, agentMethods())
}

func agentMethods() map[string]remote.Method {
	return map[string]remote.Method{
		methodProbe:  answerProbe,
		methodListen: answerListen,
		methodServe:  answerServe,
		methodMesh:   answer(func(ctx context.Context, calls drill.Calls) facts.Mesh { return calls.Run(ctx) }),
		methodSend: answer(func(ctx context.Context, r sendRequest) facts.Throughput {
			return drill.Send(ctx, r.Token, r.Node, r.To, r.For)
		}),
		methodJoin:  answer(func(ctx context.Context, join drill.Join) facts.Rendezvous { return join.Run(ctx) }),
		methodLogin: answer(func(ctx context.Context, logins drill.Logins) facts.Logins { return logins.Run(ctx) }),
		methodEndpoint: answer(func(ctx context.Context, r endpointRequest) facts.Endpoint {
			return drill.Identify(ctx, r.Endpoint, r.Deadline)
		}),
	}
}

// answer makes a method of what takes one value and gives one.
func answer[Request, Answer any](run func(context.Context, Request) Answer) remote.Method {
	return func(ctx context.Context, params json.RawMessage, reply func(string, any) error) error {
		request, err := decode[Request](params)
		if err != nil {
			return err
		}
		return reply(partAnswer, run(ctx, request))
	}
}

func decode[Message any](text json.RawMessage) (message Message, err error) {
	if err := json.Unmarshal(text, &message); err != nil {
		return message, fmt.Errorf("the %T cannot be read: %w", message, err)
	}
	return message, nil
}

// ask gets the one part of an answer.
func ask[Answer any](ctx context.Context, agent *remote.Agent, method string, request any) (given Answer, err error) {
	unread := errors.New("the agent gave no answer")
	err = agent.Call(ctx, method, request, func(_ string, body json.RawMessage) {
		given, unread = decode[Answer](body)
	})
	return given, cmp.Or(err, unread)
}

func answerProbe(ctx context.Context, params json.RawMessage, reply func(string, any) error) error {
	request, err := decode[probeRequest](params)
	if err != nil {
		return err
	}
	options, err := decode[probe.Options](request.Options)
	if err != nil {
		return err
	}
	options.Deadline = request.Deadline
	probe.Run(ctx, options, request.Sections, func(section facts.Section, seen facts.Facts, missing string) {
		// A reply that cannot be written means the head is gone, and then
		// stdin ends this process anyway.
		_ = reply(string(section), sectionReply{Seen: seen, Missing: missing})
	})
	return nil
}

// answerListen says where it listens, and then does so until it is cancelled.
func answerListen(ctx context.Context, params json.RawMessage, reply func(string, any) error) error {
	request, err := decode[drill.Listen](params)
	if err != nil {
		return err
	}
	listener, err := drill.Open(request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = reply(partAnswer, listener.Listening())
	if err != nil {
		cancel() // Serve closes what is open
	}
	listener.Serve(ctx)
	return err
}

// answerServe says at which port it serves, and then does so until it is cancelled.
func answerServe(ctx context.Context, params json.RawMessage, reply func(string, any) error) error {
	host, err := decode[drill.Host](params)
	if err != nil {
		return err
	}
	return host.Serve(ctx, func(port int) { _ = reply(partAnswer, port) })
}

// take files one answered section. A node is not trusted: an answer for a
// section nobody asked it about, or has the answer of, is dropped, and one that
// does not hold what it says leaves the section missing.
func take(node *facts.Node, asked []facts.Section, section facts.Section, body json.RawMessage) {
	var answer sectionReply
	switch err := json.Unmarshal(body, &answer); {
	case !slices.Contains(asked, section), node.Has(section), node.Missing[section] != "":
	case err != nil:
		node.Missing[section] = fmt.Sprintf("the agent's answer cannot be read: %v", err)
	case answer.Missing != "":
		node.Missing[section] = answer.Missing
	case !answer.Seen.Has(section):
		node.Missing[section] = "the agent's answer does not hold it"
	default:
		node.Take(section, answer.Seen)
	}
}
