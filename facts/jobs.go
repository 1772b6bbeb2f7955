// SPDX-License-Identifier: Apache-2.0

package facts

// Jobs is what one machine shows of the distributed launches that run on it. Nobody is asked:
// all of it is read from /proc, and where torch builds ops, and no process notices.
type Jobs struct {
	// Addresses are the machine's own, each with its interface.
	Addresses map[string]string `json:"addresses"`
	// Processes are the launchers and ranks, by process ID.
	Processes []JobProcess `json:"processes"`
	// Ports are those at which one of them meets the others, or was asked about.
	Ports []JobPort `json:"ports"`
	// Left is how many processes there were beyond those that are told of.
	Left int `json:"left,omitempty"`
}

// What a process is to a job, the values of JobProcess.Kind.
const (
	JobRunner   = "runner"   // starts launchers on nodes: deepspeed, pdsh, mpirun
	JobLauncher = "launcher" // starts the ranks of its node: torchrun, deepspeed.launcher.launch, orted
	JobRank     = "rank"
)

// JobProcess is one process of a launch. What is told of a rank's sockets and children is that
// of all processes below it.
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
	// Busy is whether a thread or child of it computes or reads from a disk at this moment.
	Busy bool `json:"busy,omitempty"`
	// WaitsIn is the kernel's function that its first thread sleeps in, "" where it does not say.
	WaitsIn string `json:"waits_in,omitempty"`
	// Tracer is the process that traces it, as a debugger does, 0 for none.
	Tracer int `json:"tracer,omitempty"`
	// Apart is whether it is in another network than we are, as a container without that of its
	// host is.
	Apart bool `json:"apart,omitempty"`
	// Exit is what a rank that nobody has collected ended with: an exit code, or 128 and the signal.
	Exit *int `json:"exit,omitempty"`
	// OOMKills is how many processes of its cgroup the kernel has killed for want of memory.
	OOMKills int `json:"oom_kills,omitempty"`
	// Torch is whether torch's library is loaded, nil where that may not be read.
	Torch *bool `json:"torch,omitempty"`
	// Compiles is the op that a child compiles, and CompilesFor since when.
	Compiles    string  `json:"compiles,omitempty"`
	CompilesFor float64 `json:"compiles_for,omitempty" unit:"s"`

	// Locks are those of ops that torch builds where it builds them for this rank.
	Locks []BuildLock `json:"locks,omitempty"`

	Meeting
	// Sockets are those that may be of the meeting, nil with Unread where they may not be read.
	Sockets []JobSocket `json:"sockets,omitempty"`
	// Unread is why its environment or its sockets could not be read: "permission denied".
	Unread string `json:"unread,omitempty"`
}

// BuildLock is the lock of an op that torch builds, which is there while it does.
type BuildLock struct {
	Path string  `json:"path"` // as the rank sees it
	Made int64   `json:"made"` // in nanoseconds since 1970, which tells whether two nodes see one file
	Age  float64 `json:"age" unit:"s"`
	// Holder is the process here that has it open, as whoever builds has, 0 for none.
	Holder int `json:"holder,omitempty"`
}

// Meeting is what a process was told of its place in a job, by its environment or, of a
// launcher, by its command line; nil, 0 and "" for what it was not told.
type Meeting struct {
	Rank      *int   `json:"rank,omitempty"`
	LocalRank *int   `json:"local_rank,omitempty"`
	NodeRank  *int   `json:"node_rank,omitempty"`
	World     int    `json:"world,omitempty"`
	Local     int    `json:"local,omitempty"` // ranks of its node
	Nodes     string `json:"nodes,omitempty"` // torchrun's --nnodes
	Address   string `json:"address,omitempty"`
	Port      int    `json:"port,omitempty"`
	RunID     string `json:"run_id,omitempty"`
	Backend   string `json:"backend,omitempty"` // torchrun's --rdzv_backend
	// Restarts is how often torchrun has started the ranks of its node anew.
	Restarts int `json:"restarts,omitempty"`
}

// States of a TCP socket, by the names that ss has for them.
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
	Address    string `json:"address"` // of this end
	Port       int    `json:"port"`
	Interface  string `json:"interface,omitempty"`
	Remote     string `json:"remote,omitempty"`
	RemotePort int    `json:"remote_port,omitempty"`
}

// JobPort is a port of a meeting on this machine.
type JobPort struct {
	Port int `json:"port"`
	// Listening is whether somebody takes calls there, and Holder the process of a job that
	// does, 0 where it is another's or cannot be seen.
	Listening bool `json:"listening"`
	Holder    int  `json:"holder,omitempty"`
	// Callers are who is connected, or half-open, from where and how often.
	Callers []JobCaller `json:"callers,omitempty"`
}

// JobCaller is from where so many connections to a port came.
type JobCaller struct {
	Address string `json:"address"`
	State   string `json:"state"`
	Count   int    `json:"count"`
}

// Stack is where the Python of a process is.
type Stack struct {
	PID   int      `json:"pid"`
	Lines []string `json:"lines,omitempty"` // a thread, then its frames, the innermost first
	// Problem is why it is not known: no py-spy, or what that said.
	Problem string `json:"problem,omitempty"`
}

// Gathering is what torchrun's launchers of a run have agreed on so far, as their store has it.
type Gathering struct {
	RunID    string     `json:"run_id"`
	Round    int        `json:"round"`
	Complete bool       `json:"complete"` // enough have joined, and ranks are started
	Closed   bool       `json:"closed"`   // nobody may join any more
	Joined   []Gatherer `json:"joined"`
	Waiting  []Gatherer `json:"waiting"` // for the next round
	// Spare are those beyond what the run takes, who wait for one of the joined to leave (since torch 2.4).
	Spare []Gatherer `json:"spare,omitempty"`
}

// Roll is who has come to a store, as torch counts there; nil for what it does not count.
type Roll struct {
	// Joined is how many clients have: the ranks of a job, and those of its torchrun.
	Joined *int `json:"joined,omitempty"`
	// Barrier is how many ranks have come to the barrier behind init_process_group.
	Barrier *int `json:"barrier,omitempty"`
	// Came and Absent are launchers of torchrun's static backend, by the number of their node.
	Came   []int `json:"came,omitempty"`
	Absent []int `json:"absent,omitempty"`
}

// Gatherer is one launcher, by the name that it gives itself.
type Gatherer struct {
	Address string `json:"address"`
	PID     int    `json:"pid"`
	// Silent is for how long it has not told the store that it is there: from what its own clock said then
	// to what that of the machine says which asks. Nil where the store has nothing of it.
	Silent *float64 `json:"silent,omitempty" unit:"s"`
}
