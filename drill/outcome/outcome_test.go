// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"syscall"
	"testing"

	"preflight/facts"
)

// TestOf checks that every connection error has one meaning, whether it occurs while connecting or
// after that.
func TestOf(t *testing.T) {
	here := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: here, Err: os.NewSyscallError("connect", err)}
	}
	read := func(err error) error { return &net.OpError{Op: "read", Net: "tcp", Addr: here, Err: err} }
	tests := []struct {
		err  error
		want facts.PathOutcome
	}{
		{nil, ""},
		{dial(syscall.ECONNREFUSED), facts.PathRefused},
		{dial(syscall.ETIMEDOUT), facts.PathDropped},
		{dial(os.ErrDeadlineExceeded), facts.PathDropped},
		{context.DeadlineExceeded, facts.PathDropped},
		{read(os.ErrDeadlineExceeded), facts.PathSilent},
		{read(syscall.ETIMEDOUT), facts.PathSilent},
		{read(syscall.ECONNRESET), facts.PathReset},
		{read(syscall.EPIPE), facts.PathReset},
		{io.EOF, facts.PathReset},
		{io.ErrUnexpectedEOF, facts.PathReset},
		// This machine has a route to itself, so the error must come from the path.
		{dial(syscall.EHOSTUNREACH), facts.PathRejected},
		{dial(syscall.ENETUNREACH), facts.PathRejected},
		{dial(syscall.EACCES), facts.PathRejected},
		{dial(syscall.EPERM), facts.PathRejected},
		{dial(syscall.ENOPROTOOPT), facts.PathRejected},
		{syscall.EHOSTUNREACH, facts.PathUnroutable},
		{dial(syscall.EMFILE), facts.PathBroken},
		{context.Canceled, facts.PathBroken},
		{errors.New("something new"), facts.PathBroken},
	}
	for _, tt := range tests {
		if got := Of(tt.err); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}

// TestOfNoRoute checks that the outcome says so if this machine has no route.
func TestOfNoRoute(t *testing.T) {
	// The first address has a zone that no interface has. The second is a documentation address.
	for _, to := range []string{"[fe80::1%none9]:9", "[2001:db8::1]:9"} {
		address, err := net.ResolveTCPAddr("tcp", to)
		if err != nil {
			t.Fatal(err)
		}
		err = &net.OpError{Op: "dial", Net: "tcp", Addr: address, Err: syscall.ENETUNREACH}
		if probe, routed := net.Dial("udp", to); routed == nil {
			probe.Close()
			continue // a machine with IPv6 has a route to every IPv6 address
		}
		if got := Of(err); got != facts.PathUnroutable {
			t.Errorf("%s: %q", to, got)
		}
	}
}

// TestExcuse checks that a peer is not blamed if it did not answer in time and there is an excuse.
// Outcomes that only a network or a stranger can cause must still be blamed.
func TestExcuse(t *testing.T) {
	for _, outcome := range []facts.PathOutcome{
		facts.PathDropped, facts.PathRefused, facts.PathUnroutable, facts.PathReset, facts.PathSilent, facts.PathBlackhole, facts.PathStranger,
	} {
		was := facts.Path{Peer: "w2", To: "10.0.0.2", Port: 40000, Outcome: outcome, Error: "as the node said", Stuck: "to", Seconds: 3}
		got, want := was, was
		if Excuse(&got, ""); !reflect.DeepEqual(got, want) {
			t.Errorf("%s without an excuse: %+v", outcome, got)
		}
		if outcome == facts.PathSilent || outcome == facts.PathBlackhole {
			want = facts.Path{Peer: "w2", To: "10.0.0.2", Port: 40000, Outcome: facts.PathUntried, Error: "w1 was busy", Seconds: 3}
		}
		if Excuse(&got, "w1 was busy"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s with an excuse: %+v", outcome, got)
		}
	}
}
