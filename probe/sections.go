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

// Section is one row of the table of sections. It describes a part of a machine that can be probed.
type Section struct {
	Name  facts.Section // Collect sets the field of facts.Facts with this name
	Asked Asked         // which machines the section is collected on
	// Limit is the section's time limit, within DefaultDeadline.
	Limit time.Duration
	// Suspect names the most likely cause if the section hangs.
	Suspect string
	// Collect reads the section. An error means that the section could not be read. If something is
	// proven absent, that is a fact and not an error.
	Collect Collect
}

// Asked says on which machines a section is collected.
type Asked int

const (
	// Nodes stands for the nodes, if the launch needs the section. It also stands for the launching
	// machine, if what the user types there depends on the section.
	Nodes Asked = 1 << iota
	// Head stands for the launching machine, which is probed before any node is reached.
	Head
)

// Sections is the table of sections. A row has everything about a section except its facts. A new
// section needs no line in any other place.
//
// A collector that uses Linux's system calls has a substitute for other systems (other.go of its
// package). Another system can launch, but cannot be a node.
var Sections = []Section{
	{facts.SectionHost, Nodes | Head, 2 * time.Second, "a hung mount",
		linux(host.CollectHost, func(f *facts.Facts) **facts.Host { return &f.Host })},
	{facts.SectionNames, Nodes, 8 * time.Second, "a dead name server",
		linux(network.CollectNames, func(f *facts.Facts) **facts.Names { return &f.Names })},
	{facts.SectionNet, Nodes, 4 * time.Second, "a driver that does not answer",
		linux(network.CollectNet, func(f *facts.Facts) **facts.Net { return &f.Net })},
	{facts.SectionSHM, Nodes, host.SHMLimit, "a process stuck in the kernel",
		linux(host.CollectSHM, func(f *facts.Facts) **facts.SHM { return &f.SHM })},
	{facts.SectionLimits, Nodes, 1 * time.Second, "a hung mount",
		linux(host.CollectLimits, func(f *facts.Facts) **facts.Limits { return &f.Limits })},
	{facts.SectionMemory, Nodes, 1 * time.Second, "a hung mount",
		linux(host.CollectMemory, func(f *facts.Facts) **facts.Memory { return &f.Memory })},
	{facts.SectionDisk, Nodes, host.DiskLimit, "a hung mount",
		linux(host.CollectDisk, func(f *facts.Facts) **facts.Disk { return &f.Disk })},
	{facts.SectionEnv, Nodes | Head, 2 * time.Second, "a hung home directory",
		anywhere(launch.CollectEnv, func(f *facts.Facts) **facts.Env { return &f.Env })},
	{facts.SectionPython, Nodes, 20 * time.Second, "packages on a hung or slow mount",
		linux(python.CollectPython, func(f *facts.Facts) **facts.Python { return &f.Python })},
	{facts.SectionIB, Nodes, 3 * time.Second, "an adapter that does not answer",
		linux(network.CollectIB, func(f *facts.Facts) **facts.IB { return &f.IB })},
	{facts.SectionFiles, Nodes, launch.FilesLimit, "a hung mount",
		anywhere(launch.CollectFiles, func(f *facts.Facts) **facts.Files { return &f.Files })},
	{facts.SectionGPU, Nodes | Head, 2 * time.Second, "a driver that does not answer",
		linux(gpu.CollectGPU, func(f *facts.Facts) **facts.GPU { return &f.GPU })},
	// Eight GPUs that wake up one after another take a while.
	{facts.SectionNVML, Nodes, 30 * time.Second, "a driver that does not answer",
		linux(gpu.CollectNVML, func(f *facts.Facts) **facts.NVML { return &f.NVML })},
	// The compiler, the toolkit and the interpreter may take VersionLimit each.
	{facts.SectionToolchain, Nodes, 8 * time.Second, "a compiler or packages on a hung mount",
		linux(python.CollectToolchain, func(f *facts.Facts) **facts.Toolchain { return &f.Toolchain })},
	{facts.SectionKernelLog, Nodes, 3 * time.Second, "a hung journal",
		linux(host.CollectKernelLog, func(f *facts.Facts) **facts.KernelLog { return &f.KernelLog })},
	{facts.SectionLauncher, Head, 8 * time.Second, "a PATH directory on a hung mount",
		anywhere(launch.CollectLauncher, func(f *facts.Facts) **facts.Launcher { return &f.Launcher })},
}

// Of returns the sections that are collected on the given machines.
func Of(machines Asked) (sections []facts.Section) {
	for _, section := range Sections {
		if section.Asked&machines != 0 {
			sections = append(sections, section.Name)
		}
	}
	return sections
}

// Collect reads one section. It returns facts with only that section.
type Collect func(ctx context.Context, o Options) (facts.Facts, error)

// anywhere returns the Collect function of a row. That function puts a collector's result into the
// collector's field of Facts.
func anywhere[T any](collect func(context.Context, Options) (*T, error), field func(*facts.Facts) **T) Collect {
	return func(ctx context.Context, o Options) (seen facts.Facts, err error) {
		*field(&seen), err = collect(ctx, o)
		return seen, err
	}
}

// linux is like anywhere, for collectors that would find nothing on another system and report that
// as a fact.
func linux[T any](collect func(context.Context, Options) (*T, error), field func(*facts.Facts) **T) Collect {
	if runtime.GOOS != "linux" {
		collect = machine.Elsewhere
	}
	return anywhere(collect, field)
}
