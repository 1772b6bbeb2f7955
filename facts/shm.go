package facts

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
