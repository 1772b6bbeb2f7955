// SPDX-License-Identifier: Apache-2.0

package facts

import "slices"

// Shared is one node's part in the drill of shared directories, in which the nodes write files and
// look for the files of the others.
type Shared struct {
	Directories []SharedDirectory `json:"directories" fact:"own"`
}

// SharedDirectory is what a node found out about one directory.
type SharedDirectory struct {
	Path string `json:"path"` // as the launch or the policy names it
	// At is the directory in which the node wrote: Path, or its nearest existing parent.
	At string `json:"at"`
	// Problem says why the node could not try the directory, "" if it could.
	Problem string `json:"problem,omitempty"`
	// Failed is the step at which the node's own write failed, "" if it wrote. Error is the
	// system's message and Code the name of the error, such as EDQUOT.
	Failed WriteStep `json:"failed,omitempty"`
	Error  string    `json:"error,omitempty"`
	Code   string    `json:"code,omitempty"`
	// Owner is the user ID that owns the node's file, nil if it is the user who wrote it.
	Owner *int `json:"owner,omitempty"`
	// Seconds is how long the node's first write took.
	Seconds float64 `json:"seconds" fact:"volatile" unit:"s"`
	// Locks maps each kind of lock that the node could not take on its own file to the system's
	// message.
	Locks map[string]string `json:"locks,omitempty"`
	// Peers lists the nodes whose files this node looked for.
	Peers []SharedPeer `json:"peers,omitempty"`
}

// WriteStep is a step of writing a file.
type WriteStep string

const (
	StepCreate WriteStep = "create"
	StepWrite  WriteStep = "write"
	StepSync   WriteStep = "sync"
)

// SharedPeer is another node's file as this node sees it.
type SharedPeer struct {
	Peer string `json:"peer"`
	// Missing says what was wrong with the file at the end, "" if it was there whole: NotThere,
	// "4096 of 65536 bytes", or the system's message.
	Missing string `json:"missing,omitempty"`
	// Seconds is for how long after the end of the peer's write the file was still missing here. It is
	// 0 if the file was there at the first look.
	Seconds float64 `json:"seconds" fact:"volatile" unit:"s"`
	// Locks maps each kind of lock that the peer holds to the result of trying it here: LockHeld if
	// the nodes share the lock, LockFree if they do not, or the system's message.
	Locks map[string]string `json:"locks,omitempty"`
}

const (
	// NotThere is the value of SharedPeer.Missing for a file that does not exist.
	NotThere = "not there"

	// These are the kinds of locks, and the results of trying a lock that a peer holds.
	LockFlock = "flock"
	LockFcntl = "fcntl"
	LockHeld  = "held"
	LockFree  = "free"
)

// Remote reports whether the place is on a file system that the node mounts over a network.
func (p *Place) Remote() bool { return slices.Contains(remoteFS, p.FSType) }

// Own reports whether the place is on a type of file system that belongs to one machine.
func (p *Place) Own() bool { return slices.Contains(ownFS, p.FSType) }

var (
	remoteFS = []string{"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "glusterfs", "fuse.glusterfs", "fuse.juicefs", "fuse.sshfs", "9p", "virtiofs", "wekafs"}
	ownFS    = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "tmpfs"}
)
