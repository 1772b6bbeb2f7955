// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"io"
	"testing"
)

// TestExplain covers endings that cannot be produced on this machine. The messages were recorded
// elsewhere.
func TestExplain(t *testing.T) {
	ended := exit{read: io.EOF}
	start := func(stderr, failed string) ending {
		return ending{exit: exit{read: io.EOF, stderr: stderr}, runs: true, spoke: true, acknowledged: true, pushed: true, failed: failed}
	}
	shell := func(noise ...string) ending { return ending{exit: ended, runs: true, noise: noise} }
	for name, c := range map[string]struct {
		ending ending
		stage  Stage
		cause  Cause
	}{
		"musl relocation":  {start("Error relocating /home/u/preflight-1: __res_init: symbol not found", "127"), StageStart, LibcTooOld},
		"shared library":   {start("error while loading shared libraries: libresolv.so.2: cannot open", "127"), StageStart, LibcTooOld},
		"ulimit -v, Go":    {start("fatal error: failed to reserve page summary memory; runtime stack:", "2"), StageStart, NoAddresses},
		"ulimit -v, later": {ending{exit: exit{read: io.EOF, stderr: "runtime: cannot map pages in arena address space; fatal error: out of memory"}, hello: true, runs: true, spoke: true, acknowledged: true}, StageTalk, NoAddresses},
		"ulimit -v, glibc": {start("error while loading shared libraries: libc.so.6: failed to map segment from shared object", "127"), StageStart, NoAddresses},
		"bash, no loader":  {start("/bin/sh: line 1: /p: cannot execute: required file not found", "126"), StageStart, LibcTooOld},
		"dash, no loader":  {start("/bin/sh: 1: /p: not found", "127"), StageStart, LibcTooOld},
		"old kernel":       {start("FATAL: kernel too old", "127"), StageStart, LibcTooOld},
		"dash, other ELF":  {start("/bin/sh: 1: /p: Syntax error: word unexpected", "2"), StageStart, WrongArch},
		"bash, other ELF":  {start("/p: cannot execute binary file: Exec format error", "126"), StageStart, WrongArch},
		"policy":           {start("/bin/sh: 1: /p: Operation not permitted", "126"), StageStart, NoExec},
		"killed at once":   {start("Killed", "137"), StageStart, AgentKilled},
		"fails at once":    {start("oh", "1"), StageStart, AgentExited},
		"github":           {shell("Hi u! You've successfully authenticated, but GitHub does not provide shell access."), StageShell, NoShell},
		"rbash":            {ending{runs: true, exit: exit{read: io.EOF, stderr: "rbash: line 1: exec: restricted"}}, StageShell, RestrictedShell},
		"no sh":            {ending{runs: true, exit: exit{read: io.EOF, stderr: "bash: line 1: /bin/sh: No such file or directory"}}, StageShell, NoShell},
		"docker exec":      {shell("the input device is not a TTY"), StageShell, NeedsPTY},
		"bastion":          {shell("Pseudo-terminal required"), StageShell, NeedsPTY},
		"mesg":             {ending{runs: true, exit: exit{read: io.EOF, stderr: "mesg: ttyname failed: Inappropriate ioctl for device", Exit: Exit{Status: -1, Missing: true}}}, StageShell, ForcedCommand},
		"quota":            {ending{exit: ended, runs: true, spoke: true, acknowledged: true, none: true, tried: []string{"/h: Disk quota exceeded", "/tmp: No space left on device"}}, StageDeliver, DiskFull},
		"ulimit -f":        {ending{exit: ended, runs: true, spoke: true, acknowledged: true, none: true, tried: []string{"/h: No space left on device", "/tmp: File size limit exceeded"}}, StageDeliver, FileLimit},
		"taken by another": {ending{exit: ended, runs: true, spoke: true, acknowledged: true, none: true, tried: []string{"/h: x (noexec)", "/tmp: (taken: drwx------ of mallory)"}}, StageDeliver, Squatted},
		"loose":            {ending{exit: ended, runs: true, spoke: true, acknowledged: true, none: true, tried: []string{"/h: x (noexec)", "/tmp: (mode is not 0700)"}}, StageDeliver, Squatted},
		"full and noexec":  {ending{exit: ended, runs: true, spoke: true, acknowledged: true, none: true, tried: []string{"/h: Disk quota exceeded", "/tmp: x (noexec)"}}, StageDeliver, NoExec},
		"mixed":            {ending{exit: ended, runs: true, spoke: true, acknowledged: true, none: true, tried: []string{"/h: Permission denied", "/tmp: x (noexec)"}}, StageDeliver, NoExec},
		"lost on the way":  {ending{exit: exit{read: io.EOF, lost: io.EOF, Exit: Exit{Status: -1, Missing: true}}, runs: true, spoke: true, acknowledged: true}, StageStart, ConnectionLost},
		"lost in a line":   {ending{exit: exit{read: io.ErrUnexpectedEOF, lost: io.EOF, Exit: Exit{Status: -1, Missing: true}}, hello: true, runs: true, spoke: true, acknowledged: true}, StageTalk, Truncated},
		"no status at all": {ending{exit: exit{read: io.EOF, Exit: Exit{Status: -1, Missing: true}}, hello: true, runs: true, spoke: true, acknowledged: true}, StageTalk, AgentExited},
	} {
		got := c.ending.explain()
		if got.Stage != c.stage || got.Cause != c.cause || got.Err == nil || got.Detail == nil && c.cause != ConnectionLost && c.cause != Truncated {
			t.Errorf("%s: got %v with %v, want %s: %s", name, got, got.Detail, c.stage, c.cause)
		}
	}
}
