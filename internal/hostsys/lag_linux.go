// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// kernelView is what the kernel counts of the threads of this process and its children.
type kernelView struct {
	threads map[string]turns // by their directory, as of the last time
}

// turns is for how long a thread has run, and has waited for that.
type turns struct{ ran, waited time.Duration }

// children are the programs that Run has under way, by pid.
var children sync.Map

// since is what all threads together have run and waited since the last time. A kernel
// that does not count that (CONFIG_SCHED_INFO) lets nobody wait.
func (k *kernelView) since() (ran, waited time.Duration) {
	seen := make(map[string]turns, len(k.threads))
	k.collect(seen, "/proc/self")
	children.Range(func(pid, _ any) bool {
		k.collectFamily(seen, strconv.Itoa(pid.(int)))
		return true
	})
	for thread, now := range seen {
		before := k.threads[thread]
		if now.ran < before.ran || now.waited < before.waited { // another of that number
			before = turns{}
		}
		ran += now.ran - before.ran
		waited += now.waited - before.waited
	}
	k.threads = seen
	return ran, waited
}

// collect adds the threads of one process.
func (k *kernelView) collect(seen map[string]turns, process string) {
	directory, err := os.Open(process + "/task")
	if err != nil {
		return // it has ended
	}
	defer directory.Close()
	ids, _ := directory.Readdirnames(-1) // as many as there still are
	for _, id := range ids {
		thread := process + "/task/" + id
		text, _ := ReadFile(thread + "/schedstat") // nothing, where the thread has ended
		ran, rest, _ := strings.Cut(string(text), " ")
		if waited, _, found := strings.Cut(rest, " "); found {
			seen[thread] = turns{ran: nanoseconds(ran), waited: nanoseconds(waited)}
		}
	}
}

// nanoseconds is a number of the kernel's own.
func nanoseconds(number string) time.Duration {
	n, _ := strconv.ParseInt(number, 10, 64)
	return time.Duration(n)
}

// collectFamily adds the threads of a child and of those that it has started.
func (k *kernelView) collectFamily(seen map[string]turns, pid string) {
	process := "/proc/" + pid
	if _, known := seen[process]; known {
		return
	}
	seen[process] = turns{}
	k.collect(seen, process)
	text, err := ReadFile(process + "/task/" + pid + "/children")
	if err != nil {
		return
	}
	for _, child := range strings.Fields(string(text)) {
		k.collectFamily(seen, child)
	}
}
