// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"fmt"
	"slices"
	"testing"

	"preflight/checks"
	"preflight/testhosts/fleettest"
)

func TestExpectationKeepsTheNodes(t *testing.T) {
	fleet := fleettest.Healthy(3)
	fleet.Nodes[0].Python = nil
	view := checks.View{All: fleet.Nodes, Launch: fleet.Launch, Memory: checks.Memory{}}
	view.Nodes = view.Everywhere()
	before := slices.Clone(view.Nodes)
	Expectation.Run(view)
	if fmt.Sprint(view.Nodes) != fmt.Sprint(before) {
		t.Error("the nodes it was handed are not the same afterwards")
	}
}
