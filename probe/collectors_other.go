//go:build !linux

package probe

import "preflight/facts"

// What only Linux's own system calls can tell.
var (
	collectHost   = elsewhere[facts.Host]
	collectNet    = elsewhere[facts.Net]
	collectSHM    = elsewhere[facts.SHM]
	collectLimits = elsewhere[facts.Limits]
	collectDisk   = elsewhere[facts.Disk]
)
