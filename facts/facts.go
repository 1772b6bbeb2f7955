// SPDX-License-Identifier: Apache-2.0

// Package facts is the vocabulary of preflight. It defines what a node can report, section by
// section. Probes fill in the facts, checks read them, and reports and snapshots store them.
//
// The package neither collects nor evaluates facts. It holds plain values and imports none of
// preflight's other packages. Sizes are bytes, durations are seconds, rates are bits per second.
//
// For every section that was requested, a node has either the section or an entry in Missing with
// the reason. If a probe has proven that something is absent, that is a fact inside the section.
// Inside a section a nil pointer means "the machine does not report this".
//
// The struct tag `fact:"…"` says how a value may be compared across nodes:
//
//	(none)    should be equal on similar nodes
//	own       may differ from node to node (addresses, names, IDs)
//	volatile  changes by itself from minute to minute (load, free memory)
//	key=Name  a list whose entries are matched by the JSON field Name, not by position
//
// The tag `lasting:"no"` marks values that change without anybody changing the node, although they
// are not volatile. On a section the tag means that the section describes one moment or one launch.
// On a node's own fact it means that a reboot, another program or a counter changes the fact.
//
// The tag `lasting:"yes"` marks volatile facts that a snapshot keeps. Such a fact says why other
// facts are unknown, so that readers do not treat the unknown ones as proven absent. See
// [Facts.Lasting].
package facts

// Section names one group of facts.
type Section string

const (
	SectionSSH    Section = "ssh"
	SectionHost   Section = "host"
	SectionClock  Section = "clock"
	SectionNames  Section = "names"
	SectionNet    Section = "net"
	SectionSHM    Section = "shm"
	SectionLimits Section = "limits"
	SectionMemory Section = "memory"
	SectionDisk   Section = "disk"
	SectionEnv    Section = "env"
	SectionPython Section = "python"
	SectionIB     Section = "ib"
	SectionFiles  Section = "files"
	SectionGPU    Section = "gpu"
	SectionNVML   Section = "nvml"
	// Toolchain is probed only if the launch must compile something.
	SectionToolchain Section = "toolchain"
	// KernelLog is probed only if the user names the check that needs it.
	SectionKernelLog Section = "kernel_log"
	// Launcher and rehearsal exist only on the launching machine.
	SectionLauncher  Section = "launcher"
	SectionRehearsal Section = "rehearsal"

	// These sections come only from drills. The peer sections hold the results of the same drills
	// on the addresses that lead to the peers. They are used if the ranks will use other addresses.
	SectionMesh           Section = "mesh"
	SectionPeerMesh       Section = "peer_mesh"
	SectionRails          Section = "rails"
	SectionRendezvous     Section = "rendezvous"
	SectionPeerRendezvous Section = "peer_rendezvous"
	SectionLogins         Section = "logins"
	SectionCallBack       Section = "callback"
	SectionHub            Section = "hub"
	SectionShared         Section = "shared"
	SectionThroughput     Section = "throughput"
	SectionSmoke          Section = "smoke"
	SectionRehearsed      Section = "rehearsed"
)

// Fleet holds every node of the launch in hostfile order, and the launching machine.
type Fleet struct {
	Head  *Node  `json:"head,omitempty"` // nil if the launching machine was not probed
	Nodes []Node `json:"nodes"`
	// NotTried maps the sections that this launch does not need on any node to the reason. These
	// sections do not count as missing.
	NotTried map[Section]string `json:"not_tried,omitempty"`
	// StoodStill lists how many seconds the launching machine stood still (stopped, asleep or
	// frozen), one entry for each time. After the first time, preflight gathers all facts again.
	// After a second time, no facts are known.
	StoodStill []float64 `json:"stood_still,omitempty"`
	// Behind is by how many seconds the launching machine fell behind its own work, if that was a
	// large part of the run; otherwise it is 0. If Behind is not 0, a node that only did not answer
	// in time counts as unknown.
	Behind float64 `json:"behind,omitempty"`
}

// Node is one machine with the facts that it reported.
type Node struct {
	Name    string             `json:"name"`    // as the hostfile spells it
	Address string             `json:"address"` // the IP address that preflight connected to, "" for none
	Slots   int                `json:"slots"`
	Reached bool               `json:"reached"` // the agent answered on the node
	Facts   `json:"facts"`     // one pointer per section
	Missing map[Section]string `json:"missing,omitempty"` // maps a section to why it could not be read
	// Unrecorded lists the paths of facts that are missing in the file from which the node was
	// read, because the file is older than the fact. The zero value of such a fact means nothing.
	// The map is nil if no fact is missing.
	Unrecorded map[string]bool `json:"-"`
}

// Facts has one pointer per section. A nil pointer means that the section is missing.
type Facts struct {
	SSH       *SSH       `json:"ssh,omitempty"`
	Host      *Host      `json:"host,omitempty"`
	Clock     *Clock     `json:"clock,omitempty" lasting:"no"`
	Names     *Names     `json:"names,omitempty" lasting:"no"`
	Net       *Net       `json:"net,omitempty"`
	SHM       *SHM       `json:"shm,omitempty"`
	Limits    *Limits    `json:"limits,omitempty"`
	Memory    *Memory    `json:"memory,omitempty"`
	Disk      *Disk      `json:"disk,omitempty"`
	Env       *Env       `json:"env,omitempty"`
	Python    *Python    `json:"python,omitempty"`
	IB        *IB        `json:"ib,omitempty"`
	Files     *Files     `json:"files,omitempty" lasting:"no"`
	GPU       *GPU       `json:"gpu,omitempty"`
	NVML      *NVML      `json:"nvml,omitempty"`
	Toolchain *Toolchain `json:"toolchain,omitempty"`
	KernelLog *KernelLog `json:"kernel_log,omitempty" lasting:"no"`
	Launcher  *Launcher  `json:"launcher,omitempty"`
	Rehearsal *Rehearsal `json:"rehearsal,omitempty" lasting:"no"`

	Mesh           *Mesh       `json:"mesh,omitempty" lasting:"no"`
	PeerMesh       *Mesh       `json:"peer_mesh,omitempty" lasting:"no"`
	Rails          *Rails      `json:"rails,omitempty" lasting:"no"`
	Rendezvous     *Rendezvous `json:"rendezvous,omitempty" lasting:"no"`
	PeerRendezvous *Rendezvous `json:"peer_rendezvous,omitempty" lasting:"no"`
	Logins         *Logins     `json:"logins,omitempty" lasting:"no"`
	CallBack       *CallBack   `json:"callback,omitempty" lasting:"no"`
	Hub            *Hub        `json:"hub,omitempty" lasting:"no"`
	Shared         *Shared     `json:"shared,omitempty" lasting:"no"`
	Throughput     *Throughput `json:"throughput,omitempty" lasting:"no"`
	Smoke          *Smoke      `json:"smoke,omitempty" lasting:"no"`
	Rehearsed      *Rehearsed  `json:"rehearsed,omitempty" lasting:"no"`
}
