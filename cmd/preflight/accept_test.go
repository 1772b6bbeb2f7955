// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/cmd/preflight/internal/usage"
)

// TestAcceptRefused checks that the error of --accept lists what has changed. A new node appears
// under its topic.
func TestAcceptRefused(t *testing.T) {
	scope, err := agreement.ReadScope("shm.size")
	if err != nil {
		t.Fatal(err)
	}
	for want, changes := range map[string][]checks.Change{
		"these have changed: nodes":              {{Node: "w4"}},
		"these have changed: host.kernel, nodes": {{Node: "w4"}, {Node: "w1", Fact: "host.kernel"}},
		"nothing has changed since":              nil,
	} {
		_, err := selectChanges(changes, []agreement.Scope{scope}, "golden.json")
		if refused, is := errors.AsType[*usage.Error](err); !is || !strings.Contains(refused.Hint, want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
