// SPDX-License-Identifier: Apache-2.0

package facts

// Host describes the machine itself.
type Host struct {
	Hostname     string `json:"hostname" fact:"own"`
	BootID       string `json:"boot_id" fact:"own" lasting:"no"`
	MachineID    string `json:"machine_id" fact:"own"`
	NetNamespace string `json:"net_namespace" fact:"own" lasting:"no"` // "net:[4026531840]"
	OS           string `json:"os"`                                    // "Debian GNU/Linux 12 (bookworm)"
	Kernel       string `json:"kernel"`
	Arch         string `json:"arch"` // as uname spells it: x86_64, aarch64
	Libc         string `json:"libc"` // "glibc 2.36", "musl 1.2.4", "" if not found
	CPU          CPU    `json:"cpu"`
	NUMA         []NUMA `json:"numa" fact:"key=id"`
	// Container is docker, podman, kubernetes, lxc, enroot or apptainer. For other kinds it is the
	// name that systemd uses ("systemd-nspawn"). It is "" if no container was detected.
	Container string `json:"container"`
	// Containers lists the containers that run on this machine. It is not set if the node is itself
	// a container.
	Containers []RunningContainer `json:"containers,omitempty" fact:"volatile"`

	// Launches lists the DeepSpeed launches that run on this machine.
	Launches []RunningLaunch `json:"launches,omitempty" fact:"volatile"`

	User  string `json:"user" fact:"own"`          // the user that preflight logs in as
	UID   *int   `json:"uid,omitempty" fact:"own"` // nil if the agent did not report it
	Home  string `json:"home" fact:"own"`
	Shell string `json:"shell"` // login shell from passwd, "" if not found
	// Tools lists which of these programs are installed: firewall-cmd, iptables, nft, rsync and
	// ufw. It is nil if that is unknown.
	Tools []string `json:"tools" fact:"own"`
	// Firewalls lists which of firewalld and ufw are active. It is nil if that is unknown, as in a
	// container.
	Firewalls []string `json:"firewalls" fact:"volatile"`
	Uptime    float64  `json:"uptime" fact:"volatile" unit:"s"` // seconds since boot
	Load      *float64 `json:"load" fact:"volatile"`            // load average over one minute
}

// These are the values of Firewalls.
const (
	Firewalld = "firewalld"
	UFW       = "ufw"
)

// RunningContainer is a container that an engine runs on this machine. It also says which parts of
// the launch the container has inside.
type RunningContainer struct {
	Engine string `json:"engine"` // docker, podman or nerdctl
	Name   string `json:"name"`   // the container's name, or the beginning of its ID if the engine did not tell the name
	// Unseen is set if only other users may read the inside of the container.
	Unseen      bool `json:"unseen,omitempty"`
	Interpreter bool `json:"interpreter,omitempty"` // the container has the launch's interpreter, at the same path
	WorkDir     bool `json:"workdir,omitempty"`     // the container has the directory in which the launch was typed
	Torch       bool `json:"torch,omitempty"`       // the container has torch where images usually have it
}

// RunningLaunch is a deepspeed.launcher.launch, which starts the ranks of a job on this machine.
type RunningLaunch struct {
	PID         int    `json:"pid"`
	User        string `json:"user"`
	Interpreter string `json:"interpreter"`      // the first word of its command line
	Script      string `json:"script,omitempty"` // without its arguments; "" if unknown
}

// CPU describes the processors that the kernel and preflight's cgroup provide.
type CPU struct {
	Model   string `json:"model"`   // "" if the kernel does not report it
	Sockets int    `json:"sockets"` // number of CPU packages; 0 if the kernel does not report it
	Online  int    `json:"online"`  // number of logical processors that are online
	Usable  int    `json:"usable"`  // processors in preflight's affinity mask
	// Quota is the number of processors to which the cgroup limits preflight, nil for no limit.
	Quota *float64 `json:"quota"`
}

// NUMA is one memory node of the machine.
type NUMA struct {
	ID    int    `json:"id"`
	CPUs  string `json:"cpus"`                               // kernel list, "0-31"; "" for a node without processors
	Bytes int64  `json:"bytes" fact:"volatile" unit:"bytes"` // 0 for a node without memory
}

// Clock is the result of comparing the node's wall clock with the launching machine's.
type Clock struct {
	Offset      float64 `json:"offset" fact:"volatile" unit:"s"`      // in seconds; positive if the node's clock is ahead
	Uncertainty float64 `json:"uncertainty" fact:"volatile" unit:"s"` // half of the round-trip time of the comparison
}

// Limits holds the resource limits of this ssh session. A rank started by pdsh gets the same
// limits. The value -1 means unlimited.
type Limits struct {
	MemLock Limit `json:"memlock" unit:"bytes"` // bytes
	// LocksFreely reports whether MemLock has no effect, because CAP_IPC_LOCK is in effect outside
	// of user namespaces too. It is nil if that is unknown.
	LocksFreely *bool `json:"locks_freely"`
	NoFile      Limit `json:"nofile"`
	NProc       Limit `json:"nproc"`
	Stack       Limit `json:"stack" unit:"bytes"` // bytes
	Core        Limit `json:"core" unit:"bytes"`  // bytes
	FileMax     int64 `json:"file_max"`           // value of fs.file-max
	// PIDsMax is the cgroup's limit on the number of processes and threads, nil for no limit.
	PIDsMax *int64 `json:"pids_max"`
	// CPUTime and AddressSpace are the soft limits of each process (ulimit -t and -v), nil for no
	// limit.
	CPUTime      *int64 `json:"cpu_time,omitempty" unit:"seconds"`
	AddressSpace *int64 `json:"address_space,omitempty" unit:"bytes"`
	// Ends is the program that ends everything that this session runs, nil if none was seen.
	Ends *SessionEnd `json:"ends,omitempty"`
}

// SessionEnd is a program between the login and preflight's agent that ends its command after some
// time, such as timeout in a ForceCommand, or a setting of sshd that does.
type SessionEnd struct {
	By      string  `json:"by"`                     // the program or setting with its duration: "timeout 8"
	Seconds float64 `json:"seconds" unit:"seconds"` // time from the login to the end
	// Silent is set if only a command ends that prints nothing for that time.
	Silent bool `json:"silent,omitempty"`
}

// Limit is one resource limit, with its soft and its hard value.
type Limit struct {
	Soft int64 `json:"soft"`
	Hard int64 `json:"hard"`
}

// Memory describes the machine's memory. Sizes are in bytes.
type Memory struct {
	Total     int64 `json:"total" unit:"bytes"`
	Available int64 `json:"available" fact:"volatile" unit:"bytes"`
	SwapTotal int64 `json:"swap_total" unit:"bytes"`
	// CgroupLimit and CgroupUsed are the values of preflight's cgroup. Both are nil if that cgroup
	// sets no limit.
	CgroupLimit *int64 `json:"cgroup_limit" unit:"bytes"`
	CgroupUsed  *int64 `json:"cgroup_used" fact:"volatile" unit:"bytes"`
	// CgroupFile is the file that sets CgroupLimit: ".../memory.max", memory.high or
	// memory.limit_in_bytes.
	CgroupFile string `json:"cgroup_file,omitempty" fact:"own"`
	HugePages  int64  `json:"huge_pages" unit:"bytes"` // memory reserved for huge pages, in bytes
	THP        string `json:"thp"`                     // always, madvise or never; "" if the kernel has no transparent huge pages
	Overcommit int    `json:"overcommit"`              // value of vm.overcommit_memory
}

// KernelLog is what the kernel's log shows about processes that the kernel has killed.
type KernelLog struct {
	// OOMKills lists the processes that the kernel has killed for lack of memory since the machine
	// was booted. It holds the last 20 at most, newest last. It is nil if the log cannot be read;
	// Unread has the reason.
	OOMKills []OOMKill `json:"oom_kills" fact:"volatile"`
	Unread   string    `json:"unread,omitempty" fact:"own"`
	// Reaches is the age of the oldest record. The kernel drops the oldest records of a full log.
	Reaches float64 `json:"reaches,omitempty" fact:"volatile" unit:"s"`
}

// OOMKill is one process that the kernel killed for lack of memory.
type OOMKill struct {
	Process string  `json:"process"`                    // the process's name, cut by the kernel to 15 bytes
	PID     int     `json:"pid"`                        // the process ID outside of containers
	Age     float64 `json:"age" unit:"s"`               // seconds since the kernel killed the process
	Limited bool    `json:"limited"`                    // the memory limit of a cgroup was reached; otherwise the whole machine had no memory left
	Cgroup  string  `json:"cgroup,omitempty"`           // the cgroup whose limit was reached, "" if the log does not name it
	RSS     int64   `json:"rss,omitempty" unit:"bytes"` // anonymous memory of the process, 0 if the log does not say
}

// Disk describes the space in the directories to which a launch writes.
type Disk struct {
	Places []Place `json:"places" fact:"key=role"`
}

// Place is one directory that a launch uses, with its file system.
type Place struct {
	Role string `json:"role"` // workdir, tmp, var-tmp, home, hf-cache, triton-cache, inductor-cache, torch-extensions, offload-optimizer, offload-param, index-cache, tokenized, checkpoint, resume, output, shared-1
	Path string `json:"path" fact:"own"`
	// Exists is false if the path does not exist. In that case the sizes belong to the path's
	// nearest existing parent.
	Exists     bool   `json:"exists"`
	Writable   bool   `json:"writable"`
	InTheWay   string `json:"in_the_way,omitempty" fact:"own"` // a file at this path blocks the directory that the launch needs
	FSType     string `json:"fstype"`
	Source     string `json:"source" fact:"own"`          // device or export, as the mount table names it
	Mount      string `json:"mount,omitempty" fact:"own"` // where that file system is mounted
	Owner      *int   `json:"owner,omitempty" fact:"own"` // the user ID that owns the directory, nil if it does not exist
	NoExec     bool   `json:"noexec"`
	ReadOnly   bool   `json:"read_only"`
	Total      int64  `json:"total" fact:"own" unit:"bytes"`
	Free       int64  `json:"free" fact:"volatile" unit:"bytes"` // bytes that this user may still write
	FreeInodes int64  `json:"free_inodes" fact:"volatile"`       // math.MaxInt64 if the file system creates inodes as needed
	// Listing is a digest of the names and sizes in an index-cache, tokenized, checkpoint or resume
	// directory and one level below. It is "" for other roles. It is also "" if the directory was
	// not read or has too many entries.
	Listing string `json:"listing" fact:"volatile"`
	// Problem says why the file system could not be read (for example a mount that hangs), "" if it
	// could.
	Problem string `json:"problem,omitempty"`
}

// SHM describes /dev/shm, where NCCL, gloo and DataLoader workers put their shared memory.
type SHM struct {
	// Exists reports whether /dev/shm exists.
	Exists     bool   `json:"exists"`
	Mounted    bool   `json:"mounted"` // a separate mount, not a directory of /
	FSType     string `json:"fstype"`
	Options    string `json:"options"`           // options of the mount and the file system, sorted, without the size
	Mode       string `json:"mode"`              // "1777"
	Size       int64  `json:"size" unit:"bytes"` // for a tmpfs without a size limit: the machine's memory
	Free       int64  `json:"free" fact:"volatile" unit:"bytes"`
	FreeInodes int64  `json:"free_inodes" fact:"volatile"` // math.MaxInt64 if inodes are not counted
	// Writable reports whether preflight could create, fill and remove a file in /dev/shm. If it
	// could not, WriteError has the reason.
	Writable   bool      `json:"writable"`
	WriteError string    `json:"write_error,omitempty"`
	Segments   []Segment `json:"segments" fact:"volatile"` // largest first, at most 256
	// ShmMax, ShmAll and ShmMni are the System V limits kernel.shm*. Their units are bytes, pages
	// and segments.
	ShmMax uint64 `json:"shmmax" unit:"bytes"`
	ShmAll uint64 `json:"shmall"`
	ShmMni uint64 `json:"shmmni"`
	// RemoveIPC is the setting of systemd-logind: "yes", "no", or "" if the machine has no logind.
	RemoveIPC string `json:"remove_ipc"`
}

// Segment is one file in /dev/shm.
type Segment struct {
	Name  string  `json:"name"`
	Size  int64   `json:"size" unit:"bytes"` // bytes that are really allocated
	Age   float64 `json:"age" unit:"s"`      // seconds since the last change
	Owner string  `json:"owner"`
	// Mapped reports whether a process has the file open or mapped. It is nil if no readable
	// process has the file and some processes could not be read.
	Mapped *bool `json:"mapped"`
}
