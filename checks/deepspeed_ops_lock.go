package checks

import (
	"fmt"
	"slices"

	"preflight/checks/fix"
)

// lock is one that an interrupted build left behind.
func (t opTools) lock() []Finding {
	if t.Lock == "" {
		return nil
	}
	f := t.lacks("a build left its lock behind, and the next one waits for it without end",
		fmt.Sprintf("a hang after: Using %s as PyTorch extensions root...", t.Extensions),
		fix.On("rm %s   # unless something is being built there now", fix.Name(t.Lock)))
	f.Got, f.Want = t.Lock, ""
	if fileSystem, isRemote := t.extensionsMounted(); isRemote {
		f.Verdict = Warn
		f.Summary = "a build has its lock where other machines build too: it is left behind, and the next one waits for it without end, or one of them is building now"
		f.Got += ", on " + fileSystem
		f.Remedy = []fix.Command{
			fix.On("pgrep -af ninja   # here and on every other machine with this directory: first see that nobody builds"),
			fix.On("rm %s   # only then: two builds in one directory spoil each other", fix.Name(t.Lock)),
		}
	}
	return []Finding{f}
}

// extensionsMounted is whether the ops lie on a file system of the network: who
// has a lock open was asked on this machine alone.
func (t opTools) extensionsMounted() (fileSystem string, isRemote bool) {
	if t.node.Disk == nil {
		return "", false
	}
	for _, place := range t.node.Disk.Places {
		if place.Role == "torch-extensions" && slices.Contains(remoteFS, place.FSType) {
			return place.FSType, true
		}
	}
	return "", false
}
