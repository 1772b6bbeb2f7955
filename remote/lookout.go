package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// lookout calls at a node's ssh port once more, shortly before a deadline that
// the node seems to miss. A machine of which only one connection hangs greets the
// new one. One that is frozen takes it, which is the kernel's work, and is silent.
type lookout struct {
	via   string
	timer *time.Timer // nil where nobody can call from here

	mu   sync.Mutex
	seen string
}

// LookOut stands by until ctx's deadline or until it is dismissed.
func (c *connection) LookOut(ctx context.Context) Lookout {
	l := &lookout{via: c.via}
	deadline, ok := ctx.Deadline()
	switch left := time.Until(deadline); {
	case !ok:
	case c.via != "":
		l.seen = fmt.Sprintf("jump host %s is between: no new connection from here can tell a machine that hangs from a way that loses packets", c.via)
	case c.path != nil:
		l.timer = time.AfterFunc(left-lastMoment(left), func() {
			ctx, cancel := context.WithTimeout(ctx, lastMoment(left)*3/4)
			defer cancel()
			l.mu.Lock()
			defer l.mu.Unlock()
			l.seen = c.path.look(ctx)
		})
	}
	return l
}

// look says what a new connection meets.
func (p *path) look(ctx context.Context) string {
	began := time.Now()
	conn, err := p.greeting(ctx)
	switch {
	case err == nil:
		conn.Close()
		return "a new connection is greeted: the machine and its SSH server live, and this connection alone hangs"
	case errors.Is(err, errNotGreeted):
		return fmt.Sprintf("a new connection is taken and not greeted within %s: the machine or its SSH server hangs", inSeconds(time.Since(began)))
	}
	return fmt.Sprintf("a new connection fails: %v", err)
}

func (l *lookout) Dismiss() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// Tell adds what was seen to the failure of a node that froze.
func (l *lookout) Tell(failure *Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if failure == nil || failure.Cause != Frozen || l.seen == "" {
		return
	}
	failure.Detail["seen"] = l.seen
	if l.via != "" {
		failure.Detail["jump"] = l.via
	}
	failure.Err = fmt.Errorf("%w; %s", failure.Err, l.seen)
}
