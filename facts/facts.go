// SPDX-License-Identifier: Apache-2.0

// Package facts is the vocabulary of preflight: what a node can tell, section
// by section. Probes fill it in, checks read it, reports and snapshots carry it.
//
// The package refuses to look and refuses to judge: it holds plain values and
// imports nothing of ours. Sizes are bytes, durations are seconds, rates are
// bits per second.
//
// For every section that was asked for, a node has either the section or an
// entry in Missing that says why it could not be looked at. What was looked for
// and proven absent is a fact and lives inside the section. Inside a section a
// nil pointer means "the machine does not report this".
//
// The struct tag `fact:"…"` says how a value may be compared across nodes:
//
//	(none)    should be equal on like nodes
//	own       rightly differs from node to node (addresses, names, ids)
//	volatile  changes by itself from minute to minute (load, free memory)
//	key=Name  a list whose entries are matched by the JSON field Name, not by position
//
// The tag `lasting:"no"` is for what changes without anybody's doing and is not
// volatile: of a section, that it tells of one moment or one launch; of a node's own
// fact, that a new boot, another program or a counter changes it. `lasting:"yes"` is
// for what is volatile and kept none the less, because it says why others are not
// known, and nobody may take those for proven absent. See [Facts.Lasting].
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
	// Toolchain is looked at only where the launch will compile something.
	SectionToolchain Section = "toolchain"
	// Launcher and rehearsal are the launching machine's.
	SectionLauncher  Section = "launcher"
	SectionRehearsal Section = "rehearsal"

	// Known only where a drill tried it. The peer sections are the same drills on
	// the addresses that lead to the peers, where the ranks will use others.
	SectionMesh           Section = "mesh"
	SectionPeerMesh       Section = "peer_mesh"
	SectionRails          Section = "rails"
	SectionRendezvous     Section = "rendezvous"
	SectionPeerRendezvous Section = "peer_rendezvous"
	SectionLogins         Section = "logins"
	SectionCallBack       Section = "callback"
	SectionHub            Section = "hub"
	SectionThroughput     Section = "throughput"
	SectionSmoke          Section = "smoke"
)

// Fleet is every node of the launch in hostfile order, and the machine it is
// launched from.
type Fleet struct {
	Head  *Node  `json:"head,omitempty"` // nil when the launching machine was not looked at
	Nodes []Node `json:"nodes"`
	// NotTried are the sections that were rightly not looked at on any node,
	// each with the reason. Nobody misses them.
	NotTried map[Section]string `json:"not_tried,omitempty"`
	// StoodStill is for how many seconds, each time, the launching machine stood still while
	// it looked: stopped, asleep or held. After the first time all was looked at anew; after
	// a second nothing is known.
	StoodStill []float64 `json:"stood_still,omitempty"`
	// Behind is for how many seconds the launching machine came late to its own work while it
	// looked, if that was a good part of the time: what only did not answer in time is unknown then.
	Behind float64 `json:"behind,omitempty"`
}

// Node is one machine and what it told.
type Node struct {
	Name    string             `json:"name"`    // as the hostfile spells it
	Address string             `json:"address"` // the IP address we connected to, "" when none was
	Slots   int                `json:"slots"`
	Reached bool               `json:"reached"` // our agent answered there
	Facts   `json:"facts"`     // one pointer a section
	Missing map[Section]string `json:"missing,omitempty"` // section → why it could not be looked at
	// Unrecorded are the paths of what the file lacks that the node was read from, as one does
	// that was written before there was such a fact: zero there is no value. nil for none.
	Unrecorded map[string]bool `json:"-"`
}

// Facts has one pointer a section; nil means not seen.
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
	Throughput     *Throughput `json:"throughput,omitempty" lasting:"no"`
	Smoke          *Smoke      `json:"smoke,omitempty" lasting:"no"`
}
