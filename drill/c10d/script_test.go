// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"context"
	"errors"
	"fmt"
	"time"

	"preflight/facts"
)

// script has a client do everything a store can do, as oracle's tests have
// torch's client do it: in the same order, with torch's "/" before each key, and
// with a WAIT before each GET.
func script(ctx context.Context, client *Client, g facts.Generation) (answers []any, err error) {
	note := func(value any, failed error) {
		if text, isText := value.([]byte); isText {
			value = string(text)
		}
		answers = append(answers, value)
		if err == nil {
			err = failed
		}
	}
	get := func(key string) ([]byte, error) {
		if err := client.Wait(ctx, key); err != nil {
			return nil, err
		}
		return client.Get(ctx, key)
	}
	text := func(s string) []byte { return []byte(s) }
	note(nil, client.Set(ctx, "/a", text("one")))
	note(get("/a"))
	note(client.Add(ctx, "/n", 3))
	note(client.Add(ctx, "/n", -5))
	note(get("/n"))
	note(nil, client.Wait(ctx, "/a", "/n"))
	note(client.CompareSet(ctx, "/a", text("one"), text("two")))
	note(client.CompareSet(ctx, "/a", text("one"), text("three")))
	note(client.CompareSet(ctx, "/absent", text("x"), text("y")))
	note(client.CompareSet(ctx, "/fresh", nil, text("new")))
	note(client.DeleteKey(ctx, "/fresh"))
	note(client.DeleteKey(ctx, "/fresh"))
	note(client.NumKeys(ctx))
	if g == facts.GenerationLegacy {
		return answers, err
	}
	note(client.Check(ctx, "/a", "/n"))
	note(client.Check(ctx, "/a", "/missing"))
	note(nil, client.Append(ctx, "/a", text("+")))
	note(nil, client.Append(ctx, "/b", text("begun")))
	note(nil, client.MultiSet(ctx, []string{"/c", "/d"}, [][]byte{text("cc"), {}}))
	keys := []string{"/a", "/b", "/c", "/d"}
	if err := client.Wait(ctx, keys...); err != nil {
		return answers, err
	}
	values, failed := client.MultiGet(ctx, keys...)
	note(fmt.Sprintf("%q", values), failed)

	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if failed := client.Wait(short, "/never"); !errors.Is(failed, context.DeadlineExceeded) {
		return answers, fmt.Errorf("a wait for what never comes: %w", failed)
	}
	note(get("/c"))
	return answers, err
}

// scriptAnswers are the answers to script in an empty store.
func scriptAnswers(g facts.Generation) []any {
	answers := []any{nil, "one", int64(3), int64(-2), "-2", nil, "two", "two", "x", "new", true, false, int64(2)}
	if g != facts.GenerationLegacy {
		answers = append(answers, true, false, nil, nil, nil, `["two+" "begun" "cc" ""]`, "cc")
	}
	return answers
}
