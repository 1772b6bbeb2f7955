// SPDX-License-Identifier: Apache-2.0

package broadcast

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"preflight/internal/hostsys"
	"preflight/internal/text"
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
	writing sync.Mutex  // over writes to stdin, saying, unsent and beaten
	saying  remote.Saying
	unsent  []byte
	beaten  time.Time     // when all tasks were last told that we are there
	ended   chan struct{} // and all that it wrote has been read
	waiting *time.Timer

	name    string             // by which files are brought to it
	settled chan struct{}      // closed when files have been brought, or will not be; nil before
	brings  context.Context    // ends with it
	stop    context.CancelFunc // that

	jammed bool // it took nothing that its tasks were told

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
	words := &lines{each: func(said string) {
		for line := range strings.Lines(said) {
			t.hear(strings.TrimSuffix(line, "\n"))
		}
	}}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = theirIn, theirOut, words, pipesGrace
	ended, err := hostsys.Start(cmd)
	if err != nil {
		stdin.Close()
		stdout.Close()
		return false
	}
	t.cmd, t.stdin, t.ended = cmd, stdin, make(chan struct{})
	t.brings, t.stop = context.WithCancel(context.Background())
	t.waiting = time.AfterFunc(engine.Patience, func() {
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
	task, raw := t.set.engine.Said(line)
	if task < 0 || task >= len(t.places) {
		_, _ = io.WriteString(&t.said, line+"\n") // never fails
		t.locked(func() {
			if t.asked++; t.set.engine.Hangs && t.asked < maxAsked && !t.open && t.set.engine.Explain(text.Escape(line), Going) != nil {
				t.end()
			}
		})
		return
	}
	raw, _, over := strings.Cut(raw, ends)
	var to io.Writer
	t.locked(func() { to = t.places[task].stderr })
	if to != nil && (raw != "" || !over) {
		_, _ = io.WriteString(to, raw+"\n")
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

// say sends lines for a task. That it cannot shows in what is read. One beat is sent for all of
// them: what a task that is stuck leaves unread fills what is held for all.
func (t *step) say(task string, text []byte) {
	t.writing.Lock()
	defer t.writing.Unlock()
	switch beat := remote.Beat(text); {
	case beat == nil:
		t.write(t.saying.To(task, text))
	case t.due(time.Now()):
		t.write(beat)
	}
}

// due is whether it is time for a beat to all tasks when there is one for any.
func (t *step) due(now time.Time) bool {
	if now.Sub(t.beaten) <= remote.DefaultBeat/2 {
		return false
	}
	t.beaten = now
	return true
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

// send is of what has gathered. A program that takes nothing for as long as its tasks had to begin
// is ended: all of them wait for one that reads nothing. t.writing is held.
func (t *step) send() {
	late := time.AfterFunc(t.set.engine.Patience, func() {
		t.locked(func() {
			t.jammed = !t.over
			t.end()
		})
	})
	_, _ = t.stdin.Write(t.unsent)
	late.Stop()
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
	if t.jammed {
		return &remote.Error{Cause: remote.ConnectionLost, Err: fmt.Errorf("%s took nothing of what its tasks were told for %s: one of them reads nothing%s",
			t.set.engine.Name, text.Duration(t.set.engine.Patience.Seconds()), t.deaf())}
	}
	if said := t.said.Text(); said != "" {
		return t.set.engine.Explain(said, Broke)
	}
	return nil
}

// deaf are the nodes that were given up while their task had not ended.
func (t *step) deaf() string {
	var nodes []string
	for _, p := range t.places {
		if p.step == t && p.isClosed() {
			nodes = append(nodes, p.node)
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	return ", maybe that of " + strings.Join(nodes, " or ")
}
