// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"preflight/facts"
)

// TestGlooMesh follows facebookincubator/gloo, transport/tcp/device.cc, isInitiator: "return rv >
// 0", where rv is the memcmp of the two addresses, then the difference of the ports.
func TestGlooMesh(t *testing.T) {
	for _, c := range []struct {
		name      string
		addresses []string
		called    []bool // whether other nodes connect to the node
	}{
		{"the last is called by nobody", []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, []bool{true, true, false}},
		{"in whatever order they stand", []string{"10.0.0.3", "10.0.0.1", "10.0.0.2"}, []bool{false, true, true}},
		{"by bytes, not by digits", []string{"10.0.0.10", "10.0.0.9"}, []bool{false, true}},
		{"a loopback among smaller ones", []string{"127.0.1.1", "10.0.0.2", "10.0.0.3"}, []bool{false, true, true}},
		{"a loopback among larger ones", []string{"127.0.1.1", "192.168.0.2", "192.168.0.3"}, []bool{true, true, false}},
		{"two loopbacks", []string{"127.0.0.1", "127.0.1.1", "10.0.0.3"}, []bool{true, false, true}},
		{"two alike: either may call", []string{"127.0.1.1", "127.0.1.1", "10.0.0.3"}, []bool{true, true, true}},
		{"docker0's, among smaller ones", []string{"172.17.0.1", "10.0.0.2"}, []bool{false, true}},
		{"docker0's, among larger ones", []string{"172.17.0.1", "172.20.0.2"}, []bool{true, false}},
		{"a mapped address is IPv4", []string{"::ffff:10.0.0.9", "10.0.0.2"}, []bool{false, true}},
		{"IPv6's loopback is the smallest", []string{"::1", "fd00::1"}, []bool{true, false}},
		{"two families end it", []string{"fd00::1", "10.0.0.1"}, []bool{true, true}},
		{"an address that is not known", []string{"", "10.0.0.1", "10.0.0.2"}, []bool{false, true, false}},
		{"alone", []string{"10.0.0.1"}, []bool{false}},
	} {
		nodes, mesh := glooNodes(c.addresses)
		for i, node := range nodes {
			if got := mesh.Caller(node) != nil; got != c.called[i] {
				t.Errorf("%s: %q is called: %v, want %v", c.name, c.addresses[i], got, c.called[i])
			}
		}
	}
}

// TestGlooCallers: Caller checks only a few nodes. Its result is the same as if it checked all of
// them.
func TestGlooCallers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var addresses []string
		for range 1 + random.IntN(6) {
			address := fmt.Sprintf("10.0.0.%d", random.IntN(4))
			if random.IntN(3) == 0 {
				address = fmt.Sprintf("fd00::%d", random.IntN(4))
			}
			addresses = append(addresses, address)
		}
		nodes, mesh := glooNodes(addresses)
		for _, node := range nodes {
			isCalled := false
			for _, other := range nodes {
				isCalled = isCalled || mesh.Calls(other, node)
			}
			caller := mesh.Caller(node)
			if isCalled != (caller != nil) || caller != nil && !mesh.Calls(caller, node) {
				t.Fatalf("%v: %s is called: %v, and the caller is %v", addresses, node.Address, isCalled, caller)
			}
		}
	}
}

func glooNodes(addresses []string) ([]*facts.Node, GlooMesh) {
	var nodes []*facts.Node
	for i, address := range addresses {
		nodes = append(nodes, &facts.Node{Name: fmt.Sprintf("w%d", i+1), Address: address})
	}
	return nodes, NewGlooMesh(nodes, func(node *facts.Node) Choice { return Choice{Address: node.Address} })
}
