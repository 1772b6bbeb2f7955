package probe

import "preflight/facts"

// linuxCollectors read what only Linux has: /proc, /sys and its system calls.
var linuxCollectors = []collector{
	{facts.SectionHost, hostLimit, "a hung mount", into(collectHost, func(f *facts.Facts) **facts.Host { return &f.Host })},
	{facts.SectionLimits, limitsLimit, "a hung mount", into(collectLimits, func(f *facts.Facts) **facts.Limits { return &f.Limits })},
	{facts.SectionMemory, memoryLimit, "a hung mount", into(collectMemory, func(f *facts.Facts) **facts.Memory { return &f.Memory })},
	{facts.SectionDisk, diskLimit, "a hung mount", into(collectDisk, func(f *facts.Facts) **facts.Disk { return &f.Disk })},
	{facts.SectionSHM, shmLimit, "a process stuck in the kernel", into(collectSHM, func(f *facts.Facts) **facts.SHM { return &f.SHM })},
	{facts.SectionNet, netLimit, "a driver that does not answer", into(collectNet, func(f *facts.Facts) **facts.Net { return &f.Net })},
	{facts.SectionNames, namesLimit, "a dead name server", into(collectNames, func(f *facts.Facts) **facts.Names { return &f.Names })},
	{facts.SectionPython, pythonLimit, "packages on a hung or slow mount", into(collectPython, func(f *facts.Facts) **facts.Python { return &f.Python })},
	{facts.SectionGPU, gpuLimit, "a driver that does not answer", into(collectGPU, func(f *facts.Facts) **facts.GPU { return &f.GPU })},
	{facts.SectionNVML, nvmlLimit, "a driver that does not answer", into(collectNVML, func(f *facts.Facts) **facts.NVML { return &f.NVML })},
	{facts.SectionToolchain, toolchainLimit, "a compiler or packages on a hung mount", into(collectToolchain, func(f *facts.Facts) **facts.Toolchain { return &f.Toolchain })},
	{facts.SectionIB, ibLimit, "an adapter that does not answer", into(collectIB, func(f *facts.Facts) **facts.IB { return &f.IB })},
}
