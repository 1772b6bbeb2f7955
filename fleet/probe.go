// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"preflight/agent"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/probe"
	"preflight/remote"
)

// probing returns the sections that every node must report, and the options of its probe.
func (job Job) probing() ([]facts.Section, probe.Options) {
	prediction := job.Prediction
	options := probe.Options{
		Publishes:   prediction.Rendezvous == launch.RendezvousC10d,
		Master:      prediction.EndpointHost(),
		MasterPort:  prediction.MasterPort,
		Interpreter: prediction.Interpreter,
		WorkDir:     prediction.WorkDir,
		Files:       prediction.Files,
		Models:      prediction.Models,
		Ops:         job.possibleOps(),
		Modules:     launch.Modules(job.script().Imports),
		Imports:     prediction.Imported(job.script().Imports),
		Exports:     map[string]string{},
	}
	if job.Head != nil {
		options.Daemon, options.CallBack = prediction.Daemon(job.Head), prediction.CallBack(job.Head).Name
	}
	for _, export := range prediction.Exports {
		// Only the node knows a value that its shell expands again (see launch's export-reread).
		if (slices.Contains(probe.Heeded, export.Name) || strings.HasPrefix(export.Name, "PYTHON")) && !strings.ContainsAny(export.Value, "$`") {
			options.Exports[export.Name] = export.Value
		}
	}
	options.TriedExports = job.triedExports()
	options.Places = map[string]string{}
	for _, place := range prediction.Places {
		if filepath.IsAbs(place.Path) {
			options.Places[place.Role] = place.Path
		}
	}
	for i, path := range job.Shared {
		options.Places[facts.RoleShared+strconv.Itoa(i+1)] = path
	}
	if config := prediction.Config; config != nil {
		for _, offload := range config.Offload {
			if filepath.IsAbs(offload.Path) { // only the script decides which directory a relative path starts from
				options.Places["offload-"+offload.What] = offload.Path
			}
		}
	}
	unneeded := job.unneeded()
	return slices.DeleteFunc(probe.Of(probe.Nodes), func(s facts.Section) bool { return unneeded[s] != "" }), options
}

// triedExports returns the names of the variables that the launcher exports in the nodes' login shells. It
// returns none if the only one is the PYTHONPATH that DeepSpeed always exports, because that is the
// working directory, and asking the shell is not free.
func (job Job) triedExports() (names []string) {
	if !job.Prediction.StartedBy().Shell {
		return nil
	}
	wanted := false
	for _, export := range job.Prediction.Exports {
		names = append(names, export.Name)
		wanted = wanted || export.Source != launch.OwnPath || export.Value != job.Prediction.WorkDir
	}
	if !wanted {
		return nil
	}
	return names
}

// script returns the launching machine's copy of the script, or an empty File if it was not read.
func (job Job) script() *facts.File {
	if job.Head == nil || job.Head.Files == nil {
		return &facts.File{}
	}
	for i, file := range job.Head.Files.Files {
		if file.Role == facts.RoleScript {
			return &job.Head.Files.Files[i]
		}
	}
	return &facts.File{}
}

// compiles reports whether the ranks may compile code for torch.compile or Triton.
func (job Job) compiles() bool { return job.Prediction.Compiles(job.script()) != "" }

// possibleOps returns the ops that DeepSpeed may have to compile. If the user has set no
// accelerator, the nodes may turn out to have none. In that case DeepSpeed compiles the CPU's
// collectives.
func (job Job) possibleOps() []string {
	p := job.Prediction
	if p.AcceleratorAssumed {
		p.Accelerator = "cpu"
	}
	return p.Ops()
}

// unneeded maps each section that does not matter for this launch to the reason.
func (job Job) unneeded() map[facts.Section]string {
	not := map[facts.Section]string{}
	if len(job.possibleOps()) == 0 && !job.compiles() {
		not[facts.SectionToolchain] = "the launch is not known to compile anything"
	}
	if job.Prediction.Accelerator == "cpu" && !job.Prediction.AcceleratorAssumed {
		not[facts.SectionNVML] = "accelerator cpu: the GPU driver is not asked" // without this, a GPU driver that hangs would delay the probe
	}
	if job.AskedFor == nil || !job.AskedFor(checkOOM) {
		not[facts.SectionKernelLog] = "only with --only " + checkOOM
	}
	return not
}

// checkOOM is the check that reads the kernel's log. A process that the kernel killed in the past
// is no reason to doubt the next launch, so the check runs only if the user asks for it.
const checkOOM = "oom-kill"

// probe makes a node report its sections. For each missing section it records the reason.
func (job Job) probe(ctx context.Context, at *remote.Agent, node *facts.Node, probing agent.Probing) error {
	err := agent.Probe(ctx, at, probing, func(part string, body json.RawMessage) {
		job.alike.store(node, facts.Section(part), body)
	})
	for _, section := range probing.Sections {
		if !node.Has(section) && node.Missing[section] == "" {
			node.Missing[section] = lostReason(err)
		}
	}
	return err
}

// store stores the answer for one section. If the answer does not contain the section, store marks
// the section as missing.
func (a *alike) store(node *facts.Node, section facts.Section, body json.RawMessage) {
	answer, err := a.decode(section, body)
	switch {
	case err != nil:
		node.Missing[section] = fmt.Sprintf("the agent's answer is malformed: %v", err)
	case answer.Missing != "":
		node.Missing[section] = answer.Missing
	case !answer.Seen.Has(section):
		node.Missing[section] = "the agent's answer lacks this section"
	default:
		node.Take(section, answer.Seen)
	}
}

// LookHere probes the launching machine as the only node of a launch that stays there. It does not
// use ssh.
func LookHere(ctx context.Context, job Job) (facts.Fleet, launch.Prediction) {
	return job.withRetry(ctx, Job.lookHere)
}

func (job Job) lookHere(ctx context.Context) (facts.Fleet, launch.Prediction) {
	fleet := job.empty()
	node := &fleet.Nodes[0]
	node.Reached, node.Missing = true, map[facts.Section]string{}
	sections, options := job.probing()
	options.Deadline = job.Timeout
	sections = slices.DeleteFunc(sections, func(s facts.Section) bool { return s == facts.SectionNames })
	job.emit(Event{Phase: Looking, Step: Began, Nodes: 1})
	job.emit(Event{Phase: Looking, Step: Began, Node: node.Name})
	ProbeHere(ctx, node, options, sections)
	job.emit(Event{Phase: Looking, Step: Ended, Node: node.Name})
	fleet.NotTried = job.unneeded()
	notTried := []facts.Section{facts.SectionSSH, facts.SectionClock, facts.SectionNames}
	for _, d := range Drills {
		notTried = append(notTried, d.Section)
	}
	for _, section := range notTried {
		fleet.NotTried[section] = hereReason
	}
	for _, d := range Drills {
		if !d.Here {
			continue
		}
		delete(fleet.NotTried, d.Section)
		if why := job.drillHere(ctx, &fleet, d); why != "" {
			fleet.NotTried[d.Section] = why
		}
	}
	return fleet, job.Prediction.Resolved(fleet.Nodes)
}

// ProbeHere probes this machine in this process. options.Deadline limits it.
func ProbeHere(ctx context.Context, node *facts.Node, options probe.Options, sections []facts.Section) {
	probe.Run(ctx, options, sections, func(section facts.Section, seen facts.Facts, missing string) {
		if missing != "" {
			node.Missing[section] = missing
			return
		}
		node.Take(section, seen)
	})
}

// startersNames is how many names each node looks up if the launcher's nodes start each other.
const startersNames = 512

// asking returns a function that tells what to ask the i-th node: the part that all nodes share,
// and this node's part of the names. The addresses of the names are resolved while nodes are being
// reached, because a name server may be slow.
func (job Job) asking(ctx context.Context) func(i int) agent.Probing {
	names := job.Prediction.HostNames()
	addresses := sync.OnceValue(func() map[string]string { return peerAddresses(ctx, names) })
	go addresses()
	share := facts.SampledNames
	if job.Prediction.NodesStartOthers() {
		share = startersNames
	}
	sections, options := job.probing()
	alike := agent.Probing{Sections: sections, Options: agent.Encode(options), Hosts: len(names)}
	return func(i int) agent.Probing {
		probing := alike
		if i == 0 {
			probing.AddressCommand = job.Prediction.AddressCommand()
		}
		probing.Peers = map[string]string{}
		for _, at := range lookups(len(names), i, share) {
			probing.Names = append(probing.Names, names[at])
			if address := addresses()[names[at]]; address != "" {
				probing.Peers[names[at]] = address
			}
		}
		return probing
	}
}

const (
	// peerTime limits the lookups of the nodes' names before the nodes are asked. If the lookup of
	// a name takes longer, nodes report no route for that name. Another section reports how every
	// node resolves every name.
	peerTime = 500 * time.Millisecond
	// lookupsAtOnce limits the number of simultaneous lookups. Without it, thousands of names would
	// flood a name server.
	lookupsAtOnce = 64
)

// peerAddresses returns the first address of every name that resolves on this machine. With it a
// node can report the interface through which it would reach that address.
func peerAddresses(ctx context.Context, names []string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, peerTime)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	peers := map[string]string{}
	places := make(chan struct{}, lookupsAtOnce)
	for _, name := range names {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			if addresses, err := net.DefaultResolver.LookupHost(ctx, hostfile.Bare(name)); err == nil {
				mu.Lock()
				defer mu.Unlock()
				peers[name] = addresses[0]
			}
		})
	}
	all.Wait()
	return peers
}
