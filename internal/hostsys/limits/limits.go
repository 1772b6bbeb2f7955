// SPDX-License-Identifier: Apache-2.0

// Package limits tells what the machine that it runs on has too little of, by what its
// calls fail with, and how many files may be open.
//
// It refuses to raise a limit, and to know who was to be reached when it was met.
package limits

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
)

// shortages are what a system call fails with when the machine it is made on has run out
// of something, whoever was to be reached: socket(2), connect(2), accept(2), fork(2).
var shortages = []struct {
	errno syscall.Errno
	of    string
}{
	{syscall.EMFILE, "files to open in one process"},
	{syscall.ENFILE, "files to open in all processes"},
	{syscall.EAGAIN, "processes and threads"},
	{syscall.ENOMEM, "memory"},
	{syscall.ENOBUFS, "memory for the network"},
	{syscall.EADDRNOTAVAIL, "addresses and ports to call from"},
}

// Shortage is what this machine has too little of where that is what failed, "" where
// it is not. Of what a resolver asked in vain only the words are left.
func Shortage(err error) string {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	for _, short := range shortages {
		if errors.Is(err, short.errno) || isDNS && strings.HasSuffix(dns.Err, short.errno.Error()) {
			return short.of
		}
	}
	return ""
}

// OpenFiles is how many files this process has open, and how many it may have: the hard
// limit, as Go raises the soft one to it when a program starts (package os). ok is false
// where the system does not tell.
func OpenFiles() (open, most int, ok bool) {
	var limit syscall.Rlimit
	listed, err := os.ReadDir("/dev/fd")
	if err != nil || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0, 0, false
	}
	const unlimited = 1 << 30
	return len(listed) - 1, int(min(limit.Cur, unlimited)), true // one of them was the list's own
}
