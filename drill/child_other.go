//go:build !linux

package drill

import "syscall"

// ownGroup starts a child in a process group of its own. When we are killed,
// only the child's closed pipes tell it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// holdThread is for systems where a child outlives the thread that started it.
func holdThread() (release func()) { return func() {} }
