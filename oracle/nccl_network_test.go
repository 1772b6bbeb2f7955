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

// names is what resolves while NCCL is asked, and nothing else does. They have one
// address each: which of several comes first is for glibc to say.
const names = `
127.0.0.1 localhost
10.1.0.2  w2
10.2.0.4  w4
fd01::6   w6
`

// network is the interfaces of a machine in the kernel's order, each a group of
// words: "eth0 10.0.0.1/24 fe80::1/64". Before the name "!" says that it is down
// and "~" that it is up without a carrier. lo is down where it is not listed.
type network []string

// end is one interface of a network.
type end struct {
	name             string
	prefixes         []string
	isUp, hasCarrier bool
}

func (n network) ends() []end {
	var ends []end
	for _, text := range n {
		words := strings.Fields(text)
		isUp := !strings.HasPrefix(words[0], "!")
		ends = append(ends, end{
			name: strings.TrimLeft(words[0], "!~"), prefixes: words[1:],
			isUp: isUp, hasCarrier: isUp && !strings.HasPrefix(words[0], "~"),
		})
	}
	return ends
}

// plumb makes the network of this process the one described, until the next one,
// and returns what a probe sees of it.
func (n network) plumb(t *testing.T) *facts.Node {
	t.Helper()
	batch := []string{"address flush dev lo", "link set lo down"}
	for _, name := range cables(t) {
		batch = append(batch, "link delete "+name)
	}
	for i, e := range n.ends() {
		if e.name != "lo" {
			batch = append(batch, e.cable(fmt.Sprintf("port%d", i))...)
		}
		for _, prefix := range e.prefixes {
			nodad := ""
			if strings.Contains(prefix, ":") {
				nodad = " nodad" // else it could not be bound at once
			}
			batch = append(batch, fmt.Sprintf("address replace %s dev %s%s", prefix, e.name, nodad))
		}
		if e.isUp {
			batch = append(batch, fmt.Sprintf("link set %s up", e.name))
		}
	}
	ip := exec.Command("ip", "-batch", "-")
	ip.Stdin = strings.NewReader(strings.Join(batch, "\n") + "\n")
	if out, err := ip.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", n, err, out)
	}
	// The kernel takes note of a carrier when it has time.
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

// cable is what connects the interface to a port without an address, without any
// address of the kernel's own.
func (e end) cable(port string) []string {
	batch := []string{
		fmt.Sprintf("link add %s type veth peer name %s", e.name, port),
		fmt.Sprintf("link set %s addrgenmode none", e.name),
		fmt.Sprintf("link set %s addrgenmode none", port),
	}
	if e.hasCarrier || !e.isUp {
		batch = append(batch, fmt.Sprintf("link set %s up", port))
	}
	return batch
}

// cables are the interfaces that the last network left.
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

// isSeenBy is whether the node's network is this one.
func (n network) isSeenBy(node *facts.Node) bool {
	for _, e := range n.ends() {
		at := slices.IndexFunc(node.Net.Interfaces, func(i facts.Interface) bool { return i.Name == e.name })
		if at < 0 {
			return false
		}
		seen := node.Net.Interfaces[at]
		if seen.Up != e.isUp || seen.Running != e.hasCarrier || len(seen.Addresses) < len(e.prefixes) {
			return false
		}
	}
	return true
}
