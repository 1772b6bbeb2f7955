// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"preflight/remote"
	"preflight/testhosts/remotetest"
)

// TestLookout: shortly before a deadline, a new connection shows what the old connection cannot
// show.
func TestLookout(t *testing.T) {
	remotetest.NoLeaks(t)
	greets, _ := listen(t, func(conn net.Conn) { io.WriteString(conn, "SSH-2.0-test\r\n") })
	silent, _ := listen(t, stay)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	cut := &connection{path: &path{reconnect: func(context.Context) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 22}, Err: os.ErrDeadlineExceeded}
	}}}
	at := func(address string) *connection {
		return &connection{path: &path{reconnect: func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}}}
	}
	for name, test := range map[string]struct {
		client *connection
		seen   string
	}{
		"it lives":              {at(greets), "gets a greeting"},
		"it is frozen":          {at(silent), " ms: the machine or its SSH server hangs"},
		"it is gone":            {at(closed.Addr().String()), "a new connection fails: connect: connection refused"},
		"the way is cut":        {cut, "a new connection fails: i/o timeout"},
		"behind a jump host":    {at(greets).through("bastion"), "jump host bastion is in between"},
		"behind a command":      {&connection{}, ""},
		"behind two jumps":      {at(greets).through("outer").through("inner"), "jump host outer is in between"},
		"greeted by a stranger": {at(stranger(t)), "gets no greeting"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			l := test.client.LookOut(ctx)
			defer l.Dismiss()
			<-ctx.Done()
			failure := &remote.Error{Cause: remote.Frozen, Detail: map[string]string{}, Err: errors.New("no answer")}
			l.Tell(failure)
			if seen := failure.Detail["seen"]; !strings.Contains(seen, test.seen) || seen == "" && test.seen != "" || !strings.HasSuffix(failure.Err.Error(), seen) {
				t.Errorf("seen %q in %v, want …%s…", seen, failure, test.seen)
			}
			if cut := test.client == cut; cut != (failure.Detail["unreached"] != "") {
				t.Errorf("unreached is %q, want it: %v", failure.Detail["unreached"], cut)
			}
			if test.client.via != failure.Detail["jump"] {
				t.Errorf("jump is %q, want %q", failure.Detail["jump"], test.client.via)
			}
			other := &remote.Error{Cause: remote.Garbage, Err: errors.New("nonsense")}
			if l.Tell(other); other.Err.Error() != "nonsense" {
				t.Errorf("told of what is no silence: %v", other)
			}
			l.Tell(nil) // nil means that the call was answered at the last moment
		})
	}
}

func stranger(t *testing.T) string {
	t.Helper()
	address, _ := listen(t, func(conn net.Conn) { io.WriteString(conn, "220 mail\r\n") })
	return address
}

// TestBlackHoleBeforeAJumpHost: packet loss on the way to a jump host is not blamed on the nodes
// behind it.
func TestBlackHoleBeforeAJumpHost(t *testing.T) {
	direct := &connection{path: &path{found: &blackHole{mtu: 9000, six: true}}}
	if e := direct.Broken(); e.Cause != remote.BlackHole || e.Detail["size"] != "8952" || e.Detail["direction"] != "from" {
		t.Errorf("got %v with %v", e.Cause, e.Detail)
	}
	if e := direct.through("bastion").Broken(); e.Cause != remote.JumpFailed || e.Detail["jump"] != "bastion" || e.Detail["cause"] != string(remote.BlackHole) {
		t.Errorf("got %v with %v", e.Cause, e.Detail)
	}
	if e := (&connection{}).Broken(); e != nil {
		t.Errorf("out of nothing: %v", e)
	}
}
