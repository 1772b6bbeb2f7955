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

// TestOurClient calls every operation of preflight's client on torch's own server.
func TestOurClient(t *testing.T) {
	t.Parallel()
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
		client.Validate()
		if r.generation == facts.GenerationPings {
			if err := client.Ping(ctx, 1); err != nil {
				t.Fatal(err)
			}
		}
		exercise(t, ctx, client)
	})
}

// exercise calls each operation once or twice and checks the results.
func exercise(t *testing.T, ctx context.Context, client *ours.Client) {
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
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := client.Wait(short, "never"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait for what never comes: %v", err)
	}
	want := []any{"done", int64(3), int64(-2), true, false, "done"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// converse lets a client of torch run the script, and checks the client's answers.
func converse(t *testing.T, client *torch, port int, g facts.Generation) {
	t.Helper()
	var got []any
	for _, o := range script(port, g) {
		answer, err := ask[any](client, o)
		if err != nil {
			t.Fatalf("%v: %v", o, err)
		}
		got = append(got, answer)
	}
	if diff := cmp.Diff(scriptAnswers(g), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// script returns the orders for converse.
func script(port int, g facts.Generation) []order {
	orders := []order{
		{"do": "dial", "port": port},
		{"do": "set", "key": "a", "value": "one"},
		{"do": "get", "key": "a"},
		{"do": "add", "key": "n", "delta": 3},
		{"do": "add", "key": "n", "delta": -5},
		{"do": "get", "key": "n"},
		{"do": "wait", "keys": []string{"a", "n"}, "seconds": 5.0},
		{"do": "num_keys"},
	}
	if g != facts.GenerationLegacy {
		orders = append(orders,
			order{"do": "check", "keys": []string{"a", "n"}},
			order{"do": "check", "keys": []string{"a", "missing"}},
		)
	}
	return orders
}

// scriptAnswers returns the answers to script. num_keys includes the keys that torch's own
// constructor stores: init/ since 1.13.
func scriptAnswers(g facts.Generation) []any {
	answers := []any{nil, nil, "one", 3.0, -2.0, "-2", nil, 2.0}
	if g != facts.GenerationLegacy {
		answers = append(answers, true, false)
	}
	return answers
}

// meet runs a job of three ranks. It calls meanwhile when two of the ranks wait for the third.
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
		if err := p.receive(&sum); err != nil || sum != 3 {
			t.Errorf("rank %d: the ranks add up to %d, want 3: %v", rank, sum, err)
		}
	}
}
