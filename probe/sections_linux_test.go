// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"encoding/json"
	"strings"
	"testing"

	"preflight/facts"
	"preflight/probe/machine"
)

// machineSections lists the sections that every Linux machine has, whatever is installed.
var machineSections = []facts.Section{
	facts.SectionHost, facts.SectionLimits, facts.SectionMemory, facts.SectionDisk, facts.SectionSHM, facts.SectionIB,
}

func TestRunOnThisMachine(t *testing.T) {
	var all facts.Facts
	Run(t.Context(), machine.Options{WorkDir: t.TempDir()}, machineSections, func(section facts.Section, seen facts.Facts, missing string) {
		if missing != "" {
			t.Errorf("%s is missing: %s", section, missing)
		}
		switch section {
		case facts.SectionHost:
			all.Host = seen.Host
		case facts.SectionLimits:
			all.Limits = seen.Limits
		case facts.SectionMemory:
			all.Memory = seen.Memory
		case facts.SectionDisk:
			all.Disk = seen.Disk
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	for what, holds := range map[string]bool{
		"boot id":               len(all.Host.BootID) == 36,
		"C library":             strings.HasPrefix(all.Host.Libc, "glibc 2.") || strings.HasPrefix(all.Host.Libc, "musl 1."),
		"processor model":       all.Host.CPU.Model != "",
		"usable processors":     all.Host.CPU.Usable > 0 && all.Host.CPU.Usable <= all.Host.CPU.Online,
		"network namespace":     strings.HasPrefix(all.Host.NetNamespace, "net:["),
		"uptime":                all.Host.Uptime > 0,
		"open files":            all.Limits.NoFile.Soft != 0,
		"memory available":      all.Memory.Available > 0 && all.Memory.Available < all.Memory.Total,
		"transparent huge page": all.Memory.THP == "" || strings.Contains("always madvise never", all.Memory.THP),
		"working directory":     all.Disk.Places[0].Role == "workdir" && all.Disk.Places[0].Exists && all.Disk.Places[0].Writable,
		"file system":           all.Disk.Places[0].FSType != "" && all.Disk.Places[0].Free > 0,
	} {
		if !holds {
			text, _ := json.Marshal(all)
			t.Errorf("%s is not told: %s", what, text)
		}
	}
}

func BenchmarkMachineSections(b *testing.B) {
	for b.Loop() {
		Run(b.Context(), machine.Options{WorkDir: "/tmp"}, machineSections, func(facts.Section, facts.Facts, string) {})
	}
}
