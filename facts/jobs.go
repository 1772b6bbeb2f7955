// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"fmt"
	"strings"
)

// Jobs holds the distributed launches that run on one machine. preflight reads them from /proc and
// from torch's build directories. It neither contacts nor disturbs any process.
type Jobs struct {
	// Addresses maps this machine's addresses to their interfaces.
	Addresses map[string]string `json:"addresses"`
	// Processes lists the launchers and ranks, sorted by process ID.
	Processes []JobProcess `json:"processes"`
	// Ports lists the ports of the processes' rendezvous, and the port that the request named.
	Ports []JobPort `json:"ports"`
	// Left is how many processes were left out because of the limit.
	Left int `json:"left,omitempty"`
	// NCCL holds what NCCL's RAS service answered, first and last. It is nil if no rank of this
	// machine offers the service, or if another machine was asked.
	NCCL *RAS `json:"nccl,omitempty"`
}

// These are the values of JobProcess.Kind: the roles that a process can have in a job.
const (
	JobRunner   = "runner"   // starts launchers on nodes: deepspeed, pdsh, mpirun
	JobLauncher = "launcher" // starts the ranks of its node: torchrun, deepspeed.launcher.launch, orted
	JobRank     = "rank"
)

// JobProcess is one process of a launch. Sockets and children of a rank include the sockets and
// children of all its descendants.
type JobProcess struct {
	PID     int    `json:"pid"`
	Parent  int    `json:"parent"`
	Kind    string `json:"kind"`
	Program string `json:"program,omitempty"` // set for a launcher or runner: "torchrun"
	// Launcher is the process ID of the nearest launcher or runner among the process's ancestors, 0
	// for none.
	Launcher int     `json:"launcher,omitempty"`
	Script   string  `json:"script,omitempty"` // file or module that the ranks train with, without its arguments
	User     string  `json:"user"`
	State    string  `json:"state"` // the kernel's letter for the process state: R, S, D, T, Z
	Age      float64 `json:"age" unit:"s"`
	// Busy reports whether, at this moment, a thread or a child of the process computes or reads
	// from a disk.
	Busy bool `json:"busy,omitempty"`
	// WaitsIn is the kernel function in which the process's first thread sleeps, "" if unknown.
	WaitsIn string `json:"waits_in,omitempty"`
	// Reads is the file, terminal, pipe or HOST:PORT from which the first thread reads, or which it
	// locks. It is "" if the thread does neither, or if this user may not see it.
	Reads string `json:"reads,omitempty"`
	// Watch holds what the process did while the agent watched it. It is nil if the agent did not.
	Watch *Watch `json:"watch,omitempty"`
	// Tracer is the ID of the process that traces this one, such as a debugger; 0 for none.
	Tracer int `json:"tracer,omitempty"`
	// Apart reports whether the process is in another network namespace than preflight, such as a
	// container's.
	Apart bool `json:"apart,omitempty"`
	// Exit is the exit status of a rank that has ended but that its parent has not collected. It is
	// an exit code, or 128 plus the signal.
	Exit *int `json:"exit,omitempty"`
	// OOMKills is how many processes of this process's cgroup the kernel has killed for lack of
	// memory.
	OOMKills int `json:"oom_kills,omitempty"`
	// Torch reports whether the process has loaded torch's library. It is nil if that cannot be
	// read.
	Torch *bool `json:"torch,omitempty"`
	// NCCL reports whether the process has loaded NCCL's library and uses a GPU.
	NCCL bool `json:"nccl,omitempty"`
	// Compiles is the op that a child process is compiling. CompilesFor is for how many seconds the
	// child has been compiling it.
	Compiles    string  `json:"compiles,omitempty"`
	CompilesFor float64 `json:"compiles_for,omitempty" unit:"s"`

	// Locks lists the locks of torch's op builds in the directory in which this rank would build.
	Locks []BuildLock `json:"locks,omitempty"`

	Meeting
	// Sockets lists the sockets that may belong to the rendezvous. It is nil if the sockets cannot
	// be read; Unread has the reason.
	Sockets []JobSocket `json:"sockets,omitempty"`
	// Unread says why the process's environment or its sockets could not be read: "permission
	// denied".
	Unread string `json:"unread,omitempty"`
}

// Watch holds what a process did during a few seconds.
type Watch struct {
	Seconds float64 `json:"seconds" unit:"s"`
	CPU     float64 `json:"cpu"` // number of CPUs that the process itself used, on average
	// Files is how many bytes it and the processes below it read and wrote with read and write. It
	// is nil if this user may not see it.
	Files *int64 `json:"files,omitempty" unit:"bytes"`
	// Flows lists its TCP connections, except those to the rendezvous, the busiest first. It is nil
	// if they are unknown, as in another network namespace.
	Flows []JobFlow `json:"flows,omitempty"`
	// Workers lists the Python processes below it, such as those of a DataLoader.
	Workers []JobWorker `json:"workers,omitempty"`
}

// JobFlow is a TCP connection of a rank, with the bytes that it carried in both directions during a
// few seconds.
type JobFlow struct {
	Remote     string `json:"remote"`
	RemotePort int    `json:"remote_port"`
	Bytes      int64  `json:"bytes" unit:"bytes"`
	// Unread is how much the kernel has received and the rank has not read. Unsent is how much the
	// rank has written and the other end has not acknowledged.
	Unread int `json:"unread,omitempty" unit:"bytes"`
	Unsent int `json:"unsent,omitempty" unit:"bytes"`
	// Sent is when the rank last sent data, in seconds since 1970 by the node's clock.
	Sent float64 `json:"sent"`
}

// JobWorker is a process that a rank has started.
type JobWorker struct {
	PID     int     `json:"pid"`
	State   string  `json:"state"`
	WaitsIn string  `json:"waits_in,omitempty"`
	CPU     float64 `json:"cpu"` // number of CPUs that it used, on average
}

// RAS holds the answers of NCCL's RAS service about all processes of a job.
type RAS struct {
	Address string `json:"address"`
	Problem string `json:"problem,omitempty"` // why there is no answer
	// Silent lists the processes that do not answer the service. Their host is an address, and their
	// process ID is that in their own container.
	Silent []RASRank `json:"silent,omitempty"`
	// Behind lists the ranks that have launched fewer collectives than other ranks of their
	// communicator, at both times.
	Behind []RASRank `json:"behind,omitempty"`
	// Moved reports whether a rank launched collectives between the two answers. It is nil if the
	// answers do not tell: NCCL before 2.28.7 has no counts if all ranks are at the same collective.
	Moved *bool `json:"moved,omitempty"`
}

// RASRank is a process in an answer of NCCL's RAS service.
type RASRank struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// Collectives says what it has launched, such as "AllReduce 41 of 42".
	Collectives string `json:"collectives,omitempty"`
	Dead        bool   `json:"dead,omitempty"` // NCCL has given it up
}

// BuildLock is the lock file that torch creates while it builds an op.
type BuildLock struct {
	Path string  `json:"path"` // path as the rank sees it
	Made int64   `json:"made"` // creation time in nanoseconds since 1970; the same value on two nodes means one shared file
	Age  float64 `json:"age" unit:"s"`
	// Holder is the ID of the process on this machine that has the file open, as a building process
	// does. It is 0 for none.
	Holder int `json:"holder,omitempty"`
}

// Meeting is a process's place in a job. A process gets it from its environment, and a launcher
// from its command line. nil, 0 and "" mean that the value was not given.
type Meeting struct {
	Rank      *int   `json:"rank,omitempty"`
	LocalRank *int   `json:"local_rank,omitempty"`
	NodeRank  *int   `json:"node_rank,omitempty"`
	World     int    `json:"world,omitempty"`
	Local     int    `json:"local,omitempty"` // number of ranks on the process's node
	Nodes     string `json:"nodes,omitempty"` // value of torchrun's --nnodes
	Address   string `json:"address,omitempty"`
	Port      int    `json:"port,omitempty"`
	RunID     string `json:"run_id,omitempty"`
	Backend   string `json:"backend,omitempty"` // value of torchrun's --rdzv_backend
	// Restarts is how often torchrun has restarted the ranks of the process's node.
	Restarts int `json:"restarts,omitempty"`
}

// These are the states of a TCP socket, with the names that ss uses.
const (
	SocketEstablished = "ESTAB"
	SocketCalling     = "SYN-SENT"
	SocketHalfOpen    = "SYN-RECV"
	SocketHungUp      = "CLOSE-WAIT"
	SocketListening   = "LISTEN"
)

// JobSocket is one end of a TCP connection.
type JobSocket struct {
	State      string `json:"state"`
	Address    string `json:"address"` // the local address
	Port       int    `json:"port"`
	Interface  string `json:"interface,omitempty"`
	Remote     string `json:"remote,omitempty"`
	RemotePort int    `json:"remote_port,omitempty"`
}

// JobPort is a rendezvous port on this machine.
type JobPort struct {
	Port int `json:"port"`
	// Listening reports whether a process accepts connections on the port. Holder is that process
	// if it belongs to a job. Holder is 0 if the process belongs to no job or cannot be seen.
	Listening bool `json:"listening"`
	Holder    int  `json:"holder,omitempty"`
	// Callers lists the connections to the port, established or half-open, grouped by their source.
	Callers []JobCaller `json:"callers,omitempty"`
}

// JobCaller counts the connections to a port that come from one address.
type JobCaller struct {
	Address string `json:"address"`
	State   string `json:"state"`
	Count   int    `json:"count"`
}

// Stack holds the Python stacks of a process.
type Stack struct {
	PID   int      `json:"pid"`
	Lines []string `json:"lines,omitempty"` // each thread is followed by its frames, innermost first
	// Problem says why the stack is unknown: py-spy is missing, or the error that py-spy printed.
	Problem string `json:"problem,omitempty"`
	// Changed reports whether the first thread was elsewhere a second later.
	Changed bool `json:"changed,omitempty"`
}

// First returns the frames of the process's first thread, innermost first, or nil if there are none.
func (s Stack) First() (frames []string) {
	first := false
	for _, line := range s.Lines {
		if strings.HasPrefix(line, "Thread ") {
			first = strings.Contains(line, `"MainThread"`) || strings.HasPrefix(line, fmt.Sprintf("Thread %d ", s.PID))
		} else if first {
			frames = append(frames, line)
		}
	}
	return frames
}

// Gathering holds what the torchrun launchers of a run have agreed on so far, according to their
// store.
type Gathering struct {
	RunID    string     `json:"run_id"`
	Round    int        `json:"round"`
	Complete bool       `json:"complete"` // enough launchers have joined, and the ranks are started
	Closed   bool       `json:"closed"`   // no launcher may join any more
	Joined   []Gatherer `json:"joined"`
	Waiting  []Gatherer `json:"waiting"` // launchers that wait for the next round
	// Spare lists the launchers beyond the number that the run takes. They wait until one of the
	// joined launchers leaves (since torch 2.4).
	Spare []Gatherer `json:"spare,omitempty"`
}

// Roll holds torch's own counts of the processes that have joined a store. A count is nil if this
// generation of torch does not keep it.
type Roll struct {
	// Joined is how many clients have joined: the ranks of a job, and the clients of its torchrun.
	Joined *int `json:"joined,omitempty"`
	// Barrier is how many ranks have reached the barrier after init_process_group.
	Barrier *int `json:"barrier,omitempty"`
	// Came and Absent list the launchers of torchrun's static backend that have come and that are
	// absent, by node number.
	Came   []int `json:"came,omitempty"`
	Absent []int `json:"absent,omitempty"`
}

// Gatherer is one launcher, with its own name for itself.
type Gatherer struct {
	Address string `json:"address"`
	PID     int    `json:"pid"`
	// Silent is how many seconds have passed since the launcher last reported to the store. It is
	// the launcher's clock at that report, subtracted from the asking machine's clock now. It is
	// nil if the store has no report of the launcher.
	Silent *float64 `json:"silent,omitempty" unit:"s"`
}
