// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"runtime"
	"time"

	"preflight/facts"
	"preflight/probe/gpu"
	"preflight/probe/host"
	"preflight/probe/launch"
	"preflight/probe/machine"
	"preflight/probe/network"
	"preflight/probe/python"
)

// Section is one row of the table: a part of a machine that can be looked at.
type Section struct {
	Name  facts.Section // whose field in facts.Facts Collect fills
	Asked Asked         // of which machines
	// Limit is how long it may take, inside DefaultDeadline.
	Limit time.Duration
	// Suspect is what a hang of it most likely means.
	Suspect string
	// Collect looks. An error means that it could not be looked at; what was
	// looked for and proven absent is a fact.
	Collect Collect
}

// Asked is of which machines a section is asked.
type Asked int

const (
	// Nodes are asked where the launch needs the section; the launching machine
	// when what is typed there depends on it.
	Nodes Asked = 1 << iota
	// Head is the launching machine, which is asked before anything is reached.
	Head
)

// Sections is the table: what is to be known of a section but its facts stands in
// its row, and a new one needs no line anywhere else.
//
// A collector that makes system calls of Linux has a stand-in elsewhere
// (other.go of its package): another system can launch, but not be a node.
var Sections = []Section{
	{facts.SectionHost, Nodes | Head, 2 * time.Second, "a hung mount", linux(host.CollectHost)},
	{facts.SectionNames, Nodes, 8 * time.Second, "a dead name server", linux(network.CollectNames)},
	{facts.SectionNet, Nodes, 4 * time.Second, "a driver that does not answer", linux(network.CollectNet)},
	{facts.SectionSHM, Nodes, host.SHMLimit, "a process stuck in the kernel", linux(host.CollectSHM)},
	{facts.SectionLimits, Nodes, 1 * time.Second, "a hung mount", linux(host.CollectLimits)},
	{facts.SectionMemory, Nodes, 1 * time.Second, "a hung mount", linux(host.CollectMemory)},
	{facts.SectionDisk, Nodes, host.DiskLimit, "a hung mount", linux(host.CollectDisk)},
	{facts.SectionEnv, Nodes | Head, 2 * time.Second, "a hung home directory", anywhere(launch.CollectEnv)},
	{facts.SectionPython, Nodes, 10 * time.Second, "packages on a hung or slow mount", linux(python.CollectPython)},
	{facts.SectionIB, Nodes, 3 * time.Second, "an adapter that does not answer", linux(network.CollectIB)},
	{facts.SectionFiles, Nodes, launch.FilesLimit, "a hung mount", anywhere(launch.CollectFiles)},
	{facts.SectionGPU, Nodes | Head, 2 * time.Second, "a driver that does not answer", linux(gpu.CollectGPU)},
	// Eight GPUs that each wake up take a while.
	{facts.SectionNVML, Nodes, 30 * time.Second, "a driver that does not answer", linux(gpu.CollectNVML)},
	// The compiler, the toolkit and the interpreter may each take their versionLimit.
	{facts.SectionToolchain, Nodes, 8 * time.Second, "a compiler or packages on a hung mount", linux(python.CollectToolchain)},
	{facts.SectionLauncher, Head, 8 * time.Second, "a PATH directory on a hung mount", anywhere(launch.CollectLauncher)},
}

// Of are the sections that machines are asked for.
func Of(machines Asked) (sections []facts.Section) {
	for _, section := range Sections {
		if section.Asked&machines != 0 {
			sections = append(sections, section.Name)
		}
	}
	return sections
}

// Collect looks at one section: what it returns is a pointer of the type that
// the section has in [facts.Facts], nil beside an error.
type Collect func(ctx context.Context, o Options) (any, error)

// anywhere makes a row's Collect of a typed collector.
func anywhere[T any](collect func(context.Context, Options) (*T, error)) Collect {
	return func(ctx context.Context, o Options) (any, error) { return collect(ctx, o) }
}

// linux is anywhere for what would look into the void on another system, and take
// that for an answer.
func linux[T any](collect func(context.Context, Options) (*T, error)) Collect {
	if runtime.GOOS != "linux" {
		collect = machine.Elsewhere
	}
	return anywhere(collect)
}
