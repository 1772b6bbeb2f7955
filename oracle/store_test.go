// SPDX-License-Identifier: Apache-2.0

//go:build oracle

package oracle_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	ours "preflight/drill/c10d"
	"preflight/facts"
)

// Our client does all that it can against torch's own server.
func TestOurClient(t *testing.T) {
	eachServer(t, func(t *testing.T, r release, libuv bool) {
		server := r.start(t)
		port := server.serve(libuv)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		client := ours.NewClient(conn, r.generation)
		defer client.Close()
		if err := client.Greet(ctx, 1); err != nil {
			t.Fatal(err)
		}
		exercise(t, ctx, client, r.generation)
	})
}

// exercise does each operation once or twice and checks what comes of it.
func exercise(t *testing.T, ctx context.Context, client *ours.Client, g facts.Generation) {
	var got []any
	note := func(value any, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("after %v: %v", got, err)
		}
		got = append(got, value)
	}
	done := func(err error) { t.Helper(); note("done", err) }

	done(client.Set(ctx, "a", []byte("one")))
	note(client.Add(ctx, "n", 3))
	note(client.Add(ctx, "n", -5))
	note(client.Check(ctx, "a", "n"))
	note(client.Check(ctx, "a", "missing"))
	done(client.Wait(ctx, "a", "n"))
	want := []any{"done", int64(3), int64(-2), true, false, "done"}
	if g != facts.GenerationLegacy {
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		if err := client.Wait(short, "never"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait for what never comes: %v", err)
		}
		note(client.Add(ctx, "n", 0)) // the connection lives on
		want = append(want, int64(-2))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// serveOurs serves our store until the test ends.
func serveOurs(t *testing.T, g facts.Generation) (server *ours.Server, port int) {
	t.Helper()
	listener, err := ours.Listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	server = ours.NewServer(g)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return server, listener.Addr().(*net.TCPAddr).Port
}

// torch's client does everything it can do against our server.
func TestOurServer(t *testing.T) {
	eachRelease(t, func(t *testing.T, r release) {
		_, port := serveOurs(t, r.generation)
		client := r.start(t)
		converse(t, client, port, r.generation)
	})
}

// converse has a client of torch's do everything, and checks what it says.
func converse(t *testing.T, client *torch, port int, g facts.Generation) {
	t.Helper()
	var got []any
	for _, o := range script(port, g) {
		answer, err := ask[any](client, o)
		if o["do"] == "wait" && o["seconds"] == 0.2 {
			if err == nil {
				t.Error("a wait for what never comes has ended")
			}
			continue
		}
		if err != nil {
			t.Fatalf("%v: %v", o, err)
		}
		got = append(got, answer)
	}
	if diff := cmp.Diff(scriptAnswers(g), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// script is what converse has done.
func script(port int, g facts.Generation) []order {
	orders := []order{
		{"do": "dial", "port": port},
		{"do": "set", "key": "a", "value": "one"},
		{"do": "get", "key": "a"},
		{"do": "add", "key": "n", "delta": 3},
		{"do": "add", "key": "n", "delta": -5},
		{"do": "get", "key": "n"},
		{"do": "wait", "keys": []string{"a", "n"}, "seconds": 5.0},
		{"do": "compare_set", "key": "a", "expected": "one", "desired": "two"},
		{"do": "compare_set", "key": "a", "expected": "one", "desired": "three"},
		{"do": "compare_set", "key": "absent", "expected": "x", "desired": "y"},
		{"do": "compare_set", "key": "fresh", "expected": "", "desired": "new"},
		{"do": "delete_key", "key": "fresh"},
		{"do": "delete_key", "key": "fresh"},
		{"do": "num_keys"},
	}
	if g != facts.GenerationLegacy {
		orders = append(orders,
			order{"do": "check", "keys": []string{"a", "n"}},
			order{"do": "check", "keys": []string{"a", "missing"}},
			order{"do": "append", "key": "a", "value": "+"},
			order{"do": "append", "key": "b", "value": "begun"},
			order{"do": "multi_set", "keys": []string{"c", "d"}, "values": []string{"cc", ""}},
			order{"do": "multi_get", "keys": []string{"a", "b", "c", "d"}},
			order{"do": "wait", "keys": []string{"never"}, "seconds": 0.2},
			order{"do": "get", "key": "c"},
		)
	}
	return orders
}

// scriptAnswers are the answers to script, without that of the wait that fails.
// num_keys counts what torch's own constructor stores, init/ since 1.13.
func scriptAnswers(g facts.Generation) []any {
	answers := []any{nil, nil, "one", 3.0, -2.0, "-2", nil, "two", "two", "x", "new", true, false, 2.0}
	if g != facts.GenerationLegacy {
		answers = append(answers, true, false, nil, nil, nil, []any{"two+", "begun", "cc", ""}, "cc")
	}
	return answers
}

// A whole job meets at our server: every rank is a client, as where an agent
// of torchrun's serves.
func TestJobAtOurServer(t *testing.T) {
	eachRelease(t, func(t *testing.T, r release) {
		_, port := serveOurs(t, r.generation)
		meet(t, r, order{"port": port, "served": true}, nil)
	})
}

// meet runs a job of three ranks. meanwhile is called when two of them are
// waiting for the third.
func meet(t *testing.T, r release, job order, meanwhile func()) {
	t.Helper()
	ranks := []*torch{r.start(t), r.start(t), r.start(t)}
	begin := func(rank int) {
		o := order{"do": "init", "rank": rank, "world": len(ranks)}
		for name, value := range job {
			o[name] = value
		}
		ranks[rank].send(o)
	}
	begin(0)
	begin(1)
	if meanwhile != nil {
		meanwhile()
	}
	begin(2)
	for rank, p := range ranks {
		var sum int
		if err := p.hear(&sum); err != nil || sum != 3 {
			t.Errorf("rank %d: the ranks add up to %d, want 3: %v", rank, sum, err)
		}
	}
}
