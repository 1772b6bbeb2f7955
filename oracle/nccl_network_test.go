// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"preflight/facts"
)

// names lists the only names that resolve while NCCL runs. Each name has one address, because glibc
// would decide the order of several addresses.
const names = `
127.0.0.1 localhost
10.1.0.2  w2
10.2.0.4  w4
fd01::6   w6
`

// network lists the interfaces of a machine in the kernel's order, each as words: "eth0 10.0.0.1/24
// fe80::1/64". "!" before the name means that the interface is down, and "~" means that it is up
// without carrier. If lo is not listed, it is down.
type network []string

// nic is one interface of a network.
type nic struct {
	name             string
	prefixes         []string
	isUp, hasCarrier bool
}

func (n network) nics() []nic {
	var nics []nic
	for _, text := range n {
		words := strings.Fields(text)
		isUp := !strings.HasPrefix(words[0], "!")
		nics = append(nics, nic{
			name: strings.TrimLeft(words[0], "!~"), prefixes: words[1:],
			isUp: isUp, hasCarrier: isUp && !strings.HasPrefix(words[0], "~"),
		})
	}
	return nics
}

// plumb gives this process the described network until the next call of plumb. It returns the facts
// that a probe finds in this network.
func (n network) plumb(t *testing.T) *facts.Node {
	t.Helper()
	batch := []string{"address flush dev lo", "link set lo down"}
	for _, name := range cables(t) {
		batch = append(batch, "link delete "+name)
	}
	for i, nic := range n.nics() {
		if nic.name != "lo" {
			batch = append(batch, nic.cable(fmt.Sprintf("port%d", i))...)
		}
		for _, prefix := range nic.prefixes {
			nodad := ""
			if strings.Contains(prefix, ":") {
				nodad = " nodad" // without this flag, the address could not be bound immediately
			}
			batch = append(batch, fmt.Sprintf("address replace %s dev %s%s", prefix, nic.name, nodad))
		}
		if nic.isUp {
			batch = append(batch, fmt.Sprintf("link set %s up", nic.name))
		}
	}
	ip := exec.Command("ip", "-batch", "-")
	ip.Stdin = strings.NewReader(strings.Join(batch, "\n") + "\n")
	if out, err := ip.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", n, err, out)
	}
	// The kernel notices a carrier only after some time, so probe again until the facts match.
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		node := look(t, []string{"localhost", "w2", "w4", "w6", "gone"}, facts.SectionNet, facts.SectionNames, facts.SectionHost)
		if n.isSeenBy(node) {
			return node
		}
		if time.Now().After(end) {
			t.Fatalf("%q is seen as %+v", n, node.Net.Interfaces)
		}
	}
}

// cable returns the commands that create the interface and connect it to a port, both without
// automatic addresses.
func (n nic) cable(port string) []string {
	batch := []string{
		fmt.Sprintf("link add %s type veth peer name %s", n.name, port),
		fmt.Sprintf("link set %s addrgenmode none", n.name),
		fmt.Sprintf("link set %s addrgenmode none", port),
	}
	if n.hasCarrier || !n.isUp {
		batch = append(batch, fmt.Sprintf("link set %s up", port))
	}
	return batch
}

// cables returns the interfaces that remain of the last network.
func cables(t *testing.T) []string {
	t.Helper()
	var left []string
	for _, i := range look(t, nil, facts.SectionNet).Net.Interfaces {
		if !i.Loopback && !strings.HasPrefix(i.Name, "port") {
			left = append(left, i.Name)
		}
	}
	return left
}

// isSeenBy reports whether the node's facts show this network.
func (n network) isSeenBy(node *facts.Node) bool {
	for _, nic := range n.nics() {
		at := slices.IndexFunc(node.Net.Interfaces, func(i facts.Interface) bool { return i.Name == nic.name })
		if at < 0 {
			return false
		}
		seen := node.Net.Interfaces[at]
		if seen.Up != nic.isUp || seen.Running != nic.hasCarrier || len(seen.Addresses) < len(nic.prefixes) {
			return false
		}
	}
	return true
}
