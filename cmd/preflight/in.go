// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"preflight/cmd/preflight/internal/inside"
)

const inUsage = "what the ranks run in on every node, as the `command` that ours is put behind: 'docker exec -i train'; {node} is the node's name. Delivery, facts, drills and fixes are then of the inside"

// enterable is the rule of --in.
func enterable(text string) error {
	_, err := inside.Words(text)
	return err
}

// inside is what the ranks run in on a node: what --in says, else what the file says of that
// node, the last that does.
func (c Config) inside() func(node string) []string {
	if words, _ := inside.Words(c.In); words != nil || c.places["in"] != "" { // held to its rule before
		return func(node string) []string { return inside.Of(words, node) }
	}
	return func(node string) []string {
		for _, in := range slices.Backward(c.Stated.In) {
			if in.Nodes == nil || slices.Contains(in.Nodes, node) {
				return inside.Of(in.Words, node)
			}
		}
		return nil
	}
}
