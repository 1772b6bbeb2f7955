// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"bufio"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"preflight/facts"
	"preflight/launch/nccl"
)

// TestGlooCalls lets ranks of every torch release meet over gloo, and counts the other ranks that
// connected to each rank. The byte-wise order of the addresses decides which rank connects.
func TestGlooCalls(t *testing.T) {
	t.Parallel()
	addresses := []string{"127.0.0.9", "127.0.0.10", "127.0.0.2", "127.0.200.1"}
	var nodes []*facts.Node
	for _, address := range addresses {
		nodes = append(nodes, &facts.Node{Address: address})
	}
	mesh := nccl.NewGlooMesh(nodes, func(node *facts.Node) nccl.Choice { return nccl.Choice{Address: node.Address} })
	eachRelease(t, func(t *testing.T, r release) {
		port := freePort(t)
		var said []*bufio.Scanner
		for rank, address := range addresses {
			cmd := exec.CommandContext(t.Context(), r.python, "-W", "ignore", "gloo.py", fmt.Sprint(rank), fmt.Sprint(len(addresses)), fmt.Sprint(port), address)
			cmd.Stderr = &logged{t: t}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			end, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				end.Close()
				cmd.Wait()
			})
			said = append(said, bufio.NewScanner(out))
		}
		for i, node := range nodes {
			want := 0
			for _, other := range nodes {
				if mesh.Calls(other, node) {
					want++
				}
			}
			said[i].Scan()
			if got := strings.TrimSpace(said[i].Text()); got != fmt.Sprint(want) {
				t.Errorf("%s was called by %q of the others, want %d", node.Address, got, want)
			}
		}
	})
}
