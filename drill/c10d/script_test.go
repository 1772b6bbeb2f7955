// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"context"

	"preflight/facts"
)

// script makes a client do everything it can, in the same way as oracle's tests use torch's client.
// It has the same order, torch's "/" before each key, and a WAIT before each GET.
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
	note(client.NumKeys(ctx))
	if g == facts.GenerationLegacy {
		return answers, err
	}
	note(client.Check(ctx, "/a", "/n"))
	note(client.Check(ctx, "/a", "/missing"))
	return answers, err
}

// scriptAnswers returns the answers that an empty store gives to script.
func scriptAnswers(g facts.Generation) []any {
	answers := []any{nil, "one", int64(3), int64(-2), "-2", nil, int64(2)}
	if g != facts.GenerationLegacy {
		answers = append(answers, true, false)
	}
	return answers
}
