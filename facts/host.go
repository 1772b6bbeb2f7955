// SPDX-License-Identifier: Apache-2.0

package facts

// Host is the machine itself.
type Host struct {
	Hostname     string `json:"hostname" fact:"own"`
	BootID       string `json:"boot_id" fact:"own" lasting:"no"`
	MachineID    string `json:"machine_id" fact:"own"`
	NetNamespace string `json:"net_namespace" fact:"own" lasting:"no"` // "net:[4026531840]"
	OS           string `json:"os"`                                    // "Debian GNU/Linux 12 (bookworm)"
	Kernel       string `json:"kernel"`
	Arch         string `json:"arch"` // uname's spelling: x86_64, aarch64
	Libc         string `json:"libc"` // "glibc 2.36", "musl 1.2.4", "" when not found
	CPU          CPU    `json:"cpu"`
	NUMA         []NUMA `json:"numa" fact:"key=id"`
	// Container is docker, podman, kubernetes, lxc, enroot, apptainer or, of
	// another kind, systemd's word for it ("systemd-nspawn"); "" for none seen.
	Container string `json:"container"`
	// Containers run on this machine, where it is none itself.
	Containers []RunningContainer `json:"containers,omitempty" fact:"volatile"`

	User   string   `json:"user" fact:"own"` // who we are there
	Home   string   `json:"home" fact:"own"`
	Shell  string   `json:"shell"`                           // login shell by passwd, "" when not found
	Uptime float64  `json:"uptime" fact:"volatile" unit:"s"` // seconds
	Load   *float64 `json:"load" fact:"volatile"`            // one minute
}

// RunningContainer is one that an engine runs beside us, and what it has inside of the launch.
type RunningContainer struct {
	Engine string `json:"engine"` // docker, podman, nerdctl
	Name   string `json:"name"`   // by which it is entered, or the beginning of its id
	// Unseen is one that only others may look into.
	Unseen      bool `json:"unseen,omitempty"`
	Interpreter bool `json:"interpreter,omitempty"` // the launch's own, at its path
	WorkDir     bool `json:"workdir,omitempty"`     // the directory that the launch is typed in
	Torch       bool `json:"torch,omitempty"`       // where images have it
}

// CPU is the processor as the kernel and our cgroup give it.
type CPU struct {
	Model   string `json:"model"`   // "" when the kernel does not say
	Sockets int    `json:"sockets"` // 0 when the kernel does not say
	Online  int    `json:"online"`  // logical processors
	Usable  int    `json:"usable"`  // by our affinity mask
	// Quota is the cgroup's limit in processors, nil when there is none.
	Quota *float64 `json:"quota"`
}

// NUMA is one memory node of the machine.
type NUMA struct {
	ID    int    `json:"id"`
	CPUs  string `json:"cpus"`                               // kernel list, "0-31"; "" for a node without processors
	Bytes int64  `json:"bytes" fact:"volatile" unit:"bytes"` // 0 for a node without memory
}

// Clock is the node's wall clock against the launching machine's.
type Clock struct {
	Offset      float64 `json:"offset" fact:"volatile" unit:"s"`      // seconds; positive when the node is ahead
	Uncertainty float64 `json:"uncertainty" fact:"volatile" unit:"s"` // half the round trip
}

// Limits are the resource limits of this very ssh session, which are the ones
// a pdsh-started rank gets. -1 means unlimited.
type Limits struct {
	MemLock Limit `json:"memlock" unit:"bytes"` // bytes
	// LocksFreely is whether MemLock does not bind, for CAP_IPC_LOCK is in effect, and not only in a user
	// namespace; nil where that was not told.
	LocksFreely *bool `json:"locks_freely"`
	NoFile      Limit `json:"nofile"`
	NProc       Limit `json:"nproc"`
	Stack       Limit `json:"stack" unit:"bytes"` // bytes
	Core        Limit `json:"core" unit:"bytes"`  // bytes
	FileMax     int64 `json:"file_max"`           // fs.file-max
	// PIDsMax is the cgroup's limit on processes and threads, nil when there is none.
	PIDsMax *int64 `json:"pids_max"`
}

// Limit is one resource limit, soft and hard.
type Limit struct {
	Soft int64 `json:"soft"`
	Hard int64 `json:"hard"`
}

// Memory is the machine's memory in bytes.
type Memory struct {
	Total     int64 `json:"total" unit:"bytes"`
	Available int64 `json:"available" fact:"volatile" unit:"bytes"`
	SwapTotal int64 `json:"swap_total" unit:"bytes"`
	// CgroupLimit and CgroupUsed are our cgroup's, nil when it sets no limit.
	CgroupLimit *int64 `json:"cgroup_limit" unit:"bytes"`
	CgroupUsed  *int64 `json:"cgroup_used" fact:"volatile" unit:"bytes"`
	HugePages   int64  `json:"huge_pages" unit:"bytes"` // reserved, in bytes
	THP         string `json:"thp"`                     // always, madvise, never; "" in a kernel without
	Overcommit  int    `json:"overcommit"`              // vm.overcommit_memory
}

// Disk is the space where a launch writes.
type Disk struct {
	Places []Place `json:"places" fact:"key=role"`
}

// Place is one directory a launch uses and the file system below it.
type Place struct {
	Role string `json:"role"` // workdir, tmp, var-tmp, home, hf-cache, triton-cache, inductor-cache, torch-extensions, offload-optimizer, offload-param, index-cache, tokenized, checkpoint, resume, output
	Path string `json:"path" fact:"own"`
	// Exists is false when the path is not there; the sizes are then those of
	// its nearest existing parent.
	Exists     bool   `json:"exists"`
	Writable   bool   `json:"writable"`
	InTheWay   string `json:"in_the_way,omitempty" fact:"own"` // what lies where a directory must be, and is none
	FSType     string `json:"fstype"`
	Source     string `json:"source" fact:"own"` // device or export, as mounted
	NoExec     bool   `json:"noexec"`
	ReadOnly   bool   `json:"read_only"`
	Total      int64  `json:"total" fact:"own" unit:"bytes"`
	Free       int64  `json:"free" fact:"volatile" unit:"bytes"` // what we may still write
	FreeInodes int64  `json:"free_inodes" fact:"volatile"`       // math.MaxInt64 where the file system makes them as needed
	// Listing is a digest of what lies in an index-cache, tokenized, checkpoint or resume and right below
	// it, by names and sizes; "" for other roles, and where nobody read it or it holds too much.
	Listing string `json:"listing" fact:"volatile"`
	// Problem says why the file system could not be asked (a hung mount), "" when it could.
	Problem string `json:"problem,omitempty"`
}

// SHM is /dev/shm, where NCCL, gloo and DataLoader workers put what they share.
type SHM struct {
	// Exists is false when there is no /dev/shm at all.
	Exists     bool   `json:"exists"`
	Mounted    bool   `json:"mounted"` // a mount of its own, not a directory of /
	FSType     string `json:"fstype"`
	Options    string `json:"options"`           // of mount and file system, sorted, its size left out
	Mode       string `json:"mode"`              // "1777"
	Size       int64  `json:"size" unit:"bytes"` // of a tmpfs without a size, the memory
	Free       int64  `json:"free" fact:"volatile" unit:"bytes"`
	FreeInodes int64  `json:"free_inodes" fact:"volatile"` // math.MaxInt64 where they are not counted
	// Writable is whether a file could be made, filled and removed there;
	// WriteError says why not.
	Writable   bool      `json:"writable"`
	WriteError string    `json:"write_error,omitempty"`
	Segments   []Segment `json:"segments" fact:"volatile"` // largest first, at most 256
	// ShmMax, ShmAll and ShmMni are the System V limits kernel.shm*, in bytes,
	// pages and segments.
	ShmMax uint64 `json:"shmmax" unit:"bytes"`
	ShmAll uint64 `json:"shmall"`
	ShmMni uint64 `json:"shmmni"`
	// RemoveIPC is systemd-logind's setting: "yes", "no", "" when there is no logind.
	RemoveIPC string `json:"remove_ipc"`
}

// Segment is one file in /dev/shm.
type Segment struct {
	Name  string  `json:"name"`
	Size  int64   `json:"size" unit:"bytes"` // blocks really taken
	Age   float64 `json:"age" unit:"s"`      // seconds since last change
	Owner string  `json:"owner"`
	// Mapped is whether a process has it open or mapped; nil when not every
	// process that may could be looked at and none of the others has it.
	Mapped *bool `json:"mapped"`
}
