// SPDX-License-Identifier: Apache-2.0

package facts

// Jobs is the distributed launches that run on one machine. preflight reads it from /proc and from
// torch's build directories, without contacting or disturbing any process.
type Jobs struct {
	// Addresses are this machine's addresses, each with its interface.
	Addresses map[string]string `json:"addresses"`
	// Processes are the launchers and ranks, sorted by process ID.
	Processes []JobProcess `json:"processes"`
	// Ports are the ports of their rendezvous, and the port that was asked about.
	Ports []JobPort `json:"ports"`
	// Left is how many processes were left out beyond the limit.
	Left int `json:"left,omitempty"`
}

// These are the roles that a process can have in a job, the values of JobProcess.Kind.
const (
	JobRunner   = "runner"   // starts launchers on nodes: deepspeed, pdsh, mpirun
	JobLauncher = "launcher" // starts the ranks of its node: torchrun, deepspeed.launcher.launch, orted
	JobRank     = "rank"
)

// JobProcess is one process of a launch. Sockets and children of a rank include those of all
// processes below it.
type JobProcess struct {
	PID     int    `json:"pid"`
	Parent  int    `json:"parent"`
	Kind    string `json:"kind"`
	Program string `json:"program,omitempty"` // of a launcher or runner: "torchrun"
	// Launcher is the process ID of the nearest launcher or runner above it, 0 for none.
	Launcher int     `json:"launcher,omitempty"`
	Script   string  `json:"script,omitempty"` // file or module that is trained with, without its arguments
	User     string  `json:"user"`
	State    string  `json:"state"` // the kernel's letter: R, S, D, T, Z
	Age      float64 `json:"age" unit:"s"`
	// Busy reports whether one of its threads or children is computing or reading from a disk at
	// this moment.
	Busy bool `json:"busy,omitempty"`
	// WaitsIn is the kernel function that its first thread sleeps in, "" if unknown.
	WaitsIn string `json:"waits_in,omitempty"`
	// Tracer is the process that traces it, such as a debugger; 0 for none.
	Tracer int `json:"tracer,omitempty"`
	// Apart reports whether it is in another network namespace than preflight, such as a
	// container's.
	Apart bool `json:"apart,omitempty"`
	// Exit is the exit status of a rank that has ended and was not collected by its parent: an exit
	// code, or 128 plus the signal.
	Exit *int `json:"exit,omitempty"`
	// OOMKills is how many processes of its cgroup the kernel has killed for lack of memory.
	OOMKills int `json:"oom_kills,omitempty"`
	// Torch reports whether torch's library is loaded, nil if that cannot be read.
	Torch *bool `json:"torch,omitempty"`
	// Compiles is the op that a child process is compiling, and CompilesFor for how many seconds.
	Compiles    string  `json:"compiles,omitempty"`
	CompilesFor float64 `json:"compiles_for,omitempty" unit:"s"`

	// Locks are the locks of torch's op builds in the directory where this rank would build.
	Locks []BuildLock `json:"locks,omitempty"`

	Meeting
	// Sockets are the sockets that may belong to the rendezvous; nil if they cannot be read, with
	// the reason in Unread.
	Sockets []JobSocket `json:"sockets,omitempty"`
	// Unread is why its environment or its sockets could not be read: "permission denied".
	Unread string `json:"unread,omitempty"`
}

// BuildLock is the lock file that torch creates while it builds an op.
type BuildLock struct {
	Path string  `json:"path"` // as the rank sees it
	Made int64   `json:"made"` // nanoseconds since 1970; the same value on two nodes means one shared file
	Age  float64 `json:"age" unit:"s"`
	// Holder is the process on this machine that has it open, as a building process does; 0 for
	// none.
	Holder int `json:"holder,omitempty"`
}

// Meeting is the place in a job that a process was given by its environment, or a launcher by its
// command line. nil, 0 and "" mean that it was not given.
type Meeting struct {
	Rank      *int   `json:"rank,omitempty"`
	LocalRank *int   `json:"local_rank,omitempty"`
	NodeRank  *int   `json:"node_rank,omitempty"`
	World     int    `json:"world,omitempty"`
	Local     int    `json:"local,omitempty"` // number of ranks on its node
	Nodes     string `json:"nodes,omitempty"` // torchrun's --nnodes
	Address   string `json:"address,omitempty"`
	Port      int    `json:"port,omitempty"`
	RunID     string `json:"run_id,omitempty"`
	Backend   string `json:"backend,omitempty"` // torchrun's --rdzv_backend
	// Restarts is how often torchrun has restarted the ranks of its node.
	Restarts int `json:"restarts,omitempty"`
}

// States of a TCP socket, named as ss names them.
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
	// Listening reports whether a process accepts connections there. Holder is that process if it
	// belongs to a job; 0 if it does not or cannot be seen.
	Listening bool `json:"listening"`
	Holder    int  `json:"holder,omitempty"`
	// Callers are the connections to it, established or half-open, grouped by where they come from.
	Callers []JobCaller `json:"callers,omitempty"`
}

// JobCaller is how many connections to a port come from one address.
type JobCaller struct {
	Address string `json:"address"`
	State   string `json:"state"`
	Count   int    `json:"count"`
}

// Stack is where the Python code of a process is.
type Stack struct {
	PID   int      `json:"pid"`
	Lines []string `json:"lines,omitempty"` // a thread, then its frames, innermost first
	// Problem is why the stack is unknown: no py-spy, or py-spy's error.
	Problem string `json:"problem,omitempty"`
}

// Gathering is what the torchrun launchers of a run have agreed on so far, according to their
// store.
type Gathering struct {
	RunID    string     `json:"run_id"`
	Round    int        `json:"round"`
	Complete bool       `json:"complete"` // enough have joined, and the ranks are started
	Closed   bool       `json:"closed"`   // no launcher may join any more
	Joined   []Gatherer `json:"joined"`
	Waiting  []Gatherer `json:"waiting"` // those waiting for the next round
	// Spare are launchers beyond the number that the run takes. They wait for one of the joined to
	// leave (since torch 2.4).
	Spare []Gatherer `json:"spare,omitempty"`
}

// Roll holds torch's own counts of who has joined a store; nil for a generation of torch that keeps
// none.
type Roll struct {
	// Joined is how many clients have joined: the ranks of a job and those of its torchrun.
	Joined *int `json:"joined,omitempty"`
	// Barrier is how many ranks have reached the barrier after init_process_group.
	Barrier *int `json:"barrier,omitempty"`
	// Came and Absent are the launchers of torchrun's static backend, by node number.
	Came   []int `json:"came,omitempty"`
	Absent []int `json:"absent,omitempty"`
}

// Gatherer is one launcher, with the name that it gave itself.
type Gatherer struct {
	Address string `json:"address"`
	PID     int    `json:"pid"`
	// Silent is how many seconds ago the launcher last reported to the store. It is the difference
	// between the launcher's clock then and the asking machine's clock now. nil if the store has no
	// report of it.
	Silent *float64 `json:"silent,omitempty" unit:"s"`
}
