//go:build !linux

package probe

import "syscall"

// ownGroup starts a child in a process group of its own. When we are killed,
// only the child's closed pipes tell it.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
