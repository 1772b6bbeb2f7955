package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"preflight/facts"
	"preflight/probe"
	"preflight/remote"
)

// methodProbe is what an agent can be asked: to look at its machine.
const methodProbe = "probe"

// nodeSections are looked at on every node, headSections on the launching machine.
var (
	nodeSections = []facts.Section{
		facts.SectionHost, facts.SectionNames, facts.SectionNet, facts.SectionSHM, facts.SectionLimits,
		facts.SectionMemory, facts.SectionDisk, facts.SectionEnv, facts.SectionPython, facts.SectionIB,
	}
	headSections = []facts.Section{facts.SectionLauncher, facts.SectionEnv, facts.SectionHost}
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

func encode(options probe.Options) json.RawMessage {
	text, err := json.Marshal(options)
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
	return remote.Serve(ctx, in, out, map[string]remote.Method{
		methodProbe: answerProbe,
	})
}

func answerProbe(ctx context.Context, params json.RawMessage, reply func(string, any) error) error {
	var request probeRequest
	if err := json.Unmarshal(params, &request); err != nil {
		return fmt.Errorf("the request cannot be read: %w", err)
	}
	var options probe.Options
	if err := json.Unmarshal(request.Options, &options); err != nil {
		return fmt.Errorf("the request cannot be read: %w", err)
	}
	options.Deadline = request.Deadline
	probe.Run(ctx, options, request.Sections, func(section facts.Section, seen facts.Facts, missing string) {
		// A reply that cannot be written means the head is gone, and then
		// stdin ends this process anyway.
		_ = reply(string(section), sectionReply{Seen: seen, Missing: missing})
	})
	return nil
}

// take files one answered section. A node is not trusted: an answer for a
// section nobody asked it about, or has the answer of, is dropped, and one that
// does not hold what it says leaves the section missing.
func take(node *facts.Node, section facts.Section, body json.RawMessage) {
	var answer sectionReply
	switch err := json.Unmarshal(body, &answer); {
	case !slices.Contains(nodeSections, section), node.Has(section), node.Missing[section] != "":
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
