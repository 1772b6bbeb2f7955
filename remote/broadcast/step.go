// SPDX-License-Identifier: Apache-2.0

package broadcast

import (
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"preflight/hostsys"
	"preflight/remote"
)

const (
	// grace is how long the program may take to end when its tasks have, and when it is told to.
	grace = time.Second
	// tidying is how long its tasks may take to remove what was being brought to them.
	tidying = 4 * time.Second
	// pipesGrace is how long its pipes may stay open behind it.
	pipesGrace = 200 * time.Millisecond
	// gathering is how long what is said waits for more, and maxUnsent what of it may.
	gathering = 2 * time.Millisecond
	maxUnsent = 32 << 10
	// maxAsked is more lines than any program needs to say why it will not begin.
	maxAsked = 1000
)

// step is one program that runs. What is not said otherwise is guarded by the set.
type step struct {
	set     *Set
	places  []*place // by task
	command string
	again   bool // those that are heard may be started once more without the others

	cmd     *exec.Cmd
	said    remote.Tail // by the program itself
	stdin   *os.File    // closed by end
	writing sync.Mutex  // over writes to stdin, saying and unsent
	saying  remote.Saying
	unsent  []byte
	ended   chan struct{} // and all that it wrote has been read
	waiting *hostsys.Timer

	name    string             // by which files are brought to it
	settled chan struct{}      // closed when files have been brought, or will not be; nil before
	brings  context.Context    // ends with it
	stop    context.CancelFunc // that

	asked int  // lines of its own that may tell why it will not begin
	heard int  // tasks
	open  bool // all of them were
	over  bool // nobody is of it any more
}

// script is what every task runs: it says where it is, and at the end how the command ended,
// for the program may say that of none, and may end all when one fails. Where it ended well nobody
// waits for its last words, nor for their end, which would come when this line has been acknowledged.
func (e *Engine) script() string {
	where := ""
	for _, variable := range []string{e.Node, e.Step} {
		if variable != "" {
			where += "${" + variable + ":-} "
		}
	}
	return e.shed() + `PREFLIGHT_TASK=$` + e.Task + `; export PREFLIGHT_TASK; echo "` + begins + where + `"; (eval "$1"); PREFLIGHT_TASK=$?; echo "` + ends + `$PREFLIGHT_TASK and nothing more comes"; [ $PREFLIGHT_TASK = 0 ] || echo "` + ends + `and nothing more comes" >&2`
}

// shed is the script's beginning: another shell in front of this one would cost every node its start.
func (e *Engine) shed() string { return "unset " + strings.Join(e.Sheds, " ") + "; " }

// What a task says before and after the command.
const (
	begins = "@@preflight-task "
	ends   = "@@preflight-ended "
)

// start starts the program, and reports whether it did.
func (t *step) start() bool {
	nodes := make([]string, len(t.places))
	for i, p := range t.places {
		nodes[i] = p.node
	}
	engine := &t.set.engine
	cmd := engine.Program(nodes, []string{"/bin/sh", "-c", engine.script(), "preflight", t.command})
	theirIn, stdin, err := os.Pipe()
	if err != nil {
		return false
	}
	defer theirIn.Close()
	stdout, theirOut, err := os.Pipe()
	if err != nil {
		stdin.Close()
		return false
	}
	defer theirOut.Close()
	t.said.Full = func() { go t.locked(t.end) }
	words := &lines{each: t.hear}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = theirIn, theirOut, words, pipesGrace
	ended, err := hostsys.Start(cmd)
	if err != nil {
		stdin.Close()
		stdout.Close()
		return false
	}
	t.cmd, t.stdin, t.ended = cmd, stdin, make(chan struct{})
	t.brings, t.stop = context.WithCancel(context.Background())
	t.waiting = hostsys.AfterFunc(engine.Patience, func() {
		t.locked(func() {
			if !t.open {
				t.end()
			}
		})
	})
	t.set.running.Go(func() {
		read := make(chan struct{})
		go func() {
			engine.Split(stdout, func(task int, piece []byte) {
				t.locked(func() {
					if task >= 0 && task < len(t.places) && t.places[task].step == t {
						t.places[task].take(piece)
						t.settle(false)
					}
				})
			})
			_, _ = io.Copy(io.Discard, stdout) // what Split would not have, so that the program goes on
			close(read)
		}()
		<-ended
		_ = stdout.SetReadDeadline(time.Now().Add(pipesGrace))
		<-read
		stdout.Close()
		close(t.ended)
		t.locked(func() {
			t.end()
			t.dissolve()
		})
	})
	return true
}

func (t *step) locked(do func()) {
	t.set.mu.Lock()
	defer t.set.mu.Unlock()
	do()
}

// hear takes a line of the program's standard error.
func (t *step) hear(line string) {
	task, text := t.set.engine.Said(line)
	if task < 0 || task >= len(t.places) {
		_, _ = io.WriteString(&t.said, line+"\n") // never fails
		t.locked(func() {
			if t.asked++; t.set.engine.Hangs && t.asked < maxAsked && !t.open && t.set.engine.Explain(remote.Escape(line), Going) != nil {
				t.end()
			}
		})
		return
	}
	text, _, over := strings.Cut(text, ends)
	var to io.Writer
	t.locked(func() { to = t.places[task].stderr })
	if to != nil && (text != "" || !over) {
		_, _ = io.WriteString(to, text+"\n")
	}
	if over {
		t.locked(func() {
			if p := t.places[task]; p.step == t {
				p.hush()
			}
		})
	}
}

// greet counts a task that runs, on the node that it says. From when all do, each is
// believed.
func (t *step) greet(p *place, where string) {
	node, name, _ := strings.Cut(where, " ")
	t.name = name
	if t.set.engine.Node != "" && node != p.node {
		t.again = false // nothing that it says of whose a task is can be believed
		t.end()
		return
	}
	p.heard = true
	if t.heard++; t.heard < len(t.places) || t.over {
		return
	}
	t.open = true
	t.waiting.Stop()
	for _, p := range t.places {
		if p.step == t {
			p.replay()
		}
	}
}

// say sends lines for a task. That it cannot shows in what is read.
func (t *step) say(task string, text []byte) {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.write(t.saying.To(task, text))
}

// begin sends the first line for a task.
func (t *step) begin(task string, line []byte) {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.write([]byte(t.saying.Opening(task, string(line))))
}

// bid tells a task that nothing more comes for it.
func (t *step) bid(task string) {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.write(remote.AddressEnd(task))
}

// write sends what is said to one task with what is about to be said to others: the program wakes
// every one of its nodes for each piece that it reads. t.writing is held.
func (t *step) write(text []byte) {
	first := len(t.unsent) == 0
	t.unsent = append(t.unsent, text...)
	switch {
	case len(t.unsent) > maxUnsent:
		t.send()
	case first:
		time.AfterFunc(gathering, func() {
			t.writing.Lock()
			defer t.writing.Unlock()
			t.send()
		})
	}
}

// send is of what has gathered. t.writing is held.
func (t *step) send() {
	_, _ = t.stdin.Write(t.unsent)
	t.unsent = t.unsent[:0]
}

// dismiss is bid for whoever must not wait: the task may take nothing for as long as it runs.
func (t *step) dismiss(p *place) {
	task := p.task
	t.set.running.Go(func() { t.bid(task) })
}

// leave ends the program when nobody is of it any more.
func (t *step) leave() {
	for _, p := range t.places {
		if p.step == t && !p.isClosed() {
			return
		}
	}
	t.end()
}

// end ends the program: with its standard input, by the signal at which it ends its tasks,
// and at last without it.
func (t *step) end() {
	if t.over {
		return
	}
	t.over = true
	t.waiting.Stop()
	t.stop()
	first := grace
	switch {
	case slices.ContainsFunc(t.places, func(p *place) bool { return p.asks != nil && p.step == t }):
		first = tidying
	case slices.ContainsFunc(t.places, func(p *place) bool { return p.step == t }):
		first = 0 // whoever has not ended may not
	}
	t.set.running.Go(func() {
		if t.settled != nil {
			<-t.settled
		}
		t.stdin.Close()
		for i, wait := range []time.Duration{first, grace} {
			select {
			case <-t.ended:
				return
			case <-time.After(wait):
			}
			if i == 0 {
				_ = t.cmd.Process.Signal(syscall.SIGTERM)
			}
		}
		_ = hostsys.KillGroup(t.cmd)
		<-t.ended
	})
}

// dissolve sees to those who are still of a program that is not to be had any more.
func (t *step) dissolve() {
	var left, heard []*place
	for _, p := range t.places {
		switch {
		case p.step != t:
		case p.last != nil:
			p.last()
		case p.spoke:
			p.finish(remote.Exit{Status: -1, Missing: true}, t.failure())
		case p.heard && !t.open && t.again && !p.isClosed():
			heard = append(heard, p)
		default:
			left = append(left, p)
		}
	}
	if len(heard) > 1 && len(heard) < len(t.places) && !t.set.closed {
		t.set.start(heard, t.command, false)
	} else {
		left = append(left, heard...)
	}
	for _, p := range left {
		p.alone()
	}
}

// failure is why the program ended, nil where it does not say.
func (t *step) failure() *remote.Error {
	if said := t.said.Text(); said != "" {
		return t.set.engine.Explain(said, Broke)
	}
	return nil
}

// lines hands on whole lines, of limited length.
type lines struct {
	each  func(line string)
	begun []byte
}

const longestWord = 64 << 10

func (l *lines) Write(text []byte) (int, error) {
	for piece := range strings.SplitAfterSeq(string(text), "\n") {
		l.begun = append(l.begun, piece...)
		if strings.HasSuffix(piece, "\n") || len(l.begun) > longestWord {
			l.each(strings.TrimSuffix(string(l.begun), "\n"))
			l.begun = l.begun[:0]
		}
	}
	return len(text), nil
}
