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
	Arch         string `json:"arch"` // as uname spells it: x86_64, aarch64
	Libc         string `json:"libc"` // "glibc 2.36", "musl 1.2.4", "" if not found
	CPU          CPU    `json:"cpu"`
	NUMA         []NUMA `json:"numa" fact:"key=id"`
	// Container is docker, podman, kubernetes, lxc, enroot or apptainer. For other kinds it is
	// systemd's word ("systemd-nspawn"), and "" if no container was detected.
	Container string `json:"container"`
	// Containers are those that run on this machine. Not set if the node is itself a container.
	Containers []RunningContainer `json:"containers,omitempty" fact:"volatile"`

	User  string `json:"user" fact:"own"` // the user that preflight logs in as
	Home  string `json:"home" fact:"own"`
	Shell string `json:"shell"` // login shell from passwd, "" if not found
	// Tools are those of firewall-cmd, iptables, nft, rsync and ufw that are installed, nil if
	// unknown.
	Tools  []string `json:"tools" fact:"volatile"`
	Uptime float64  `json:"uptime" fact:"volatile" unit:"s"` // seconds
	Load   *float64 `json:"load" fact:"volatile"`            // average over one minute
}

// RunningContainer is a container that an engine runs on this machine, and which parts of the
// launch it has inside.
type RunningContainer struct {
	Engine string `json:"engine"` // docker, podman, nerdctl
	Name   string `json:"name"`   // the name to enter it with, or the beginning of its ID
	// Unseen is set if only other users may look inside.
	Unseen      bool `json:"unseen,omitempty"`
	Interpreter bool `json:"interpreter,omitempty"` // it has the launch's interpreter, at the same path
	WorkDir     bool `json:"workdir,omitempty"`     // it has the directory in which the launch was typed
	Torch       bool `json:"torch,omitempty"`       // it has torch where images usually have it
}

// CPU is the processors that the kernel and our cgroup provide.
type CPU struct {
	Model   string `json:"model"`   // "" if the kernel does not report it
	Sockets int    `json:"sockets"` // 0 if the kernel does not report it
	Online  int    `json:"online"`  // logical processors
	Usable  int    `json:"usable"`  // those in our affinity mask
	// Quota is the cgroup's limit in processors, nil for no limit.
	Quota *float64 `json:"quota"`
}

// NUMA is one memory node of the machine.
type NUMA struct {
	ID    int    `json:"id"`
	CPUs  string `json:"cpus"`                               // kernel list, "0-31"; "" for a node without processors
	Bytes int64  `json:"bytes" fact:"volatile" unit:"bytes"` // 0 for a node without memory
}

// Clock compares the node's wall clock with the launching machine's.
type Clock struct {
	Offset      float64 `json:"offset" fact:"volatile" unit:"s"`      // seconds; positive when the node is ahead
	Uncertainty float64 `json:"uncertainty" fact:"volatile" unit:"s"` // half the round trip
}

// Limits are the resource limits of this ssh session. A rank started by pdsh gets the same ones. -1
// means unlimited.
type Limits struct {
	MemLock Limit `json:"memlock" unit:"bytes"` // bytes
	// LocksFreely reports whether MemLock does not apply, because CAP_IPC_LOCK is in effect outside
	// of user namespaces too. nil if that is unknown.
	LocksFreely *bool `json:"locks_freely"`
	NoFile      Limit `json:"nofile"`
	NProc       Limit `json:"nproc"`
	Stack       Limit `json:"stack" unit:"bytes"` // bytes
	Core        Limit `json:"core" unit:"bytes"`  // bytes
	FileMax     int64 `json:"file_max"`           // fs.file-max
	// PIDsMax is the cgroup's limit on processes and threads, nil for no limit.
	PIDsMax *int64 `json:"pids_max"`
}

// Limit is one resource limit: its soft and hard value.
type Limit struct {
	Soft int64 `json:"soft"`
	Hard int64 `json:"hard"`
}

// Memory is the machine's memory in bytes.
type Memory struct {
	Total     int64 `json:"total" unit:"bytes"`
	Available int64 `json:"available" fact:"volatile" unit:"bytes"`
	SwapTotal int64 `json:"swap_total" unit:"bytes"`
	// CgroupLimit and CgroupUsed belong to our cgroup; nil if it sets no limit.
	CgroupLimit *int64 `json:"cgroup_limit" unit:"bytes"`
	CgroupUsed  *int64 `json:"cgroup_used" fact:"volatile" unit:"bytes"`
	HugePages   int64  `json:"huge_pages" unit:"bytes"` // reserved, in bytes
	THP         string `json:"thp"`                     // always, madvise or never; "" if the kernel has no transparent huge pages
	Overcommit  int    `json:"overcommit"`              // vm.overcommit_memory
}

// Disk is the space where a launch writes.
type Disk struct {
	Places []Place `json:"places" fact:"key=role"`
}

// Place is one directory that a launch uses, and its file system.
type Place struct {
	Role string `json:"role"` // workdir, tmp, var-tmp, home, hf-cache, triton-cache, inductor-cache, torch-extensions, offload-optimizer, offload-param, index-cache, tokenized, checkpoint, resume, output
	Path string `json:"path" fact:"own"`
	// Exists is false if the path does not exist. The sizes are then those of its nearest existing
	// parent.
	Exists     bool   `json:"exists"`
	Writable   bool   `json:"writable"`
	InTheWay   string `json:"in_the_way,omitempty" fact:"own"` // the file that blocks the path where a directory is needed
	FSType     string `json:"fstype"`
	Source     string `json:"source" fact:"own"` // device or export, as mounted
	NoExec     bool   `json:"noexec"`
	ReadOnly   bool   `json:"read_only"`
	Total      int64  `json:"total" fact:"own" unit:"bytes"`
	Free       int64  `json:"free" fact:"volatile" unit:"bytes"` // what this user may still write
	FreeInodes int64  `json:"free_inodes" fact:"volatile"`       // math.MaxInt64 if the file system creates inodes as needed
	// Listing is a digest of the names and sizes in an index-cache, tokenized, checkpoint or resume
	// directory and one level below. "" for other roles, and if it was not read or has too many
	// entries.
	Listing string `json:"listing" fact:"volatile"`
	// Problem is why the file system could not be read (such as a hung mount), "" if it could.
	Problem string `json:"problem,omitempty"`
}

// SHM is /dev/shm, where NCCL, gloo and DataLoader workers put their shared memory.
type SHM struct {
	// Exists is false if there is no /dev/shm.
	Exists     bool   `json:"exists"`
	Mounted    bool   `json:"mounted"` // a mount of its own, not a directory of /
	FSType     string `json:"fstype"`
	Options    string `json:"options"`           // options of the mount and the file system, sorted, without the size
	Mode       string `json:"mode"`              // "1777"
	Size       int64  `json:"size" unit:"bytes"` // for a tmpfs without a size: the machine's memory
	Free       int64  `json:"free" fact:"volatile" unit:"bytes"`
	FreeInodes int64  `json:"free_inodes" fact:"volatile"` // math.MaxInt64 if inodes are not counted
	// Writable reports whether preflight could create, fill and remove a file there. WriteError has
	// the reason if it could not.
	Writable   bool      `json:"writable"`
	WriteError string    `json:"write_error,omitempty"`
	Segments   []Segment `json:"segments" fact:"volatile"` // largest first, at most 256
	// ShmMax, ShmAll and ShmMni are the System V limits kernel.shm*, in bytes, pages and segments.
	ShmMax uint64 `json:"shmmax" unit:"bytes"`
	ShmAll uint64 `json:"shmall"`
	ShmMni uint64 `json:"shmmni"`
	// RemoveIPC is systemd-logind's setting: "yes", "no", or "" without logind.
	RemoveIPC string `json:"remove_ipc"`
}

// Segment is one file in /dev/shm.
type Segment struct {
	Name  string  `json:"name"`
	Size  int64   `json:"size" unit:"bytes"` // space really allocated
	Age   float64 `json:"age" unit:"s"`      // seconds since the last change
	Owner string  `json:"owner"`
	// Mapped reports whether a process has it open or mapped. nil if no process that could be read
	// has it, and some processes could not be read.
	Mapped *bool `json:"mapped"`
}
