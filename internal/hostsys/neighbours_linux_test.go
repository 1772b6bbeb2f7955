// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// TestNeighbourTables: in any network namespace, netlink reports the tables that /proc shows in the
// first namespace.
func TestNeighbourTables(t *testing.T) {
	tables, err := NeighbourTables()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{ARPTable: "ipv4", NDiscTable: "ipv6"}
	for _, table := range tables {
		for i, threshold := range table.Thresholds {
			text, err := os.ReadFile("/proc/sys/net/" + known[table.Name] + "/neigh/default/gc_thresh" + strconv.Itoa(i+1))
			if err == nil && strings.TrimSpace(string(text)) != strconv.Itoa(threshold) || threshold <= 0 {
				t.Errorf("%s has threshold %d of %d, and %s in /proc", table.Name, i+1, threshold, text)
			}
		}
		if table.Overflows == nil { // the counter exists since Linux 4.3
			t.Errorf("%s does not count overflows", table.Name)
		}
		delete(known, table.Name)
	}
	if len(known) > 0 {
		t.Errorf("nothing is told of %v", known)
	}
}

// TestParseTable: a message that is too short or invalid is not a table.
func TestParseTable(t *testing.T) {
	attribute := func(kind byte, value ...byte) []byte {
		padded := append([]byte{byte(4 + len(value)), 0, kind, 0}, value...)
		return append(padded, make([]byte, -len(padded)&3)...)
	}
	header := make([]byte, tableHeader)
	old := append(append(append(header, attribute(tableName, []byte("arp_cache\x00")...)...), attribute(tableThresh1+2, 0, 4, 0, 0)...), attribute(tableStats, make([]byte, 80)...)...)
	for _, tt := range []struct {
		message []byte
		want    NeighbourTable
		isOne   bool
	}{
		{nil, NeighbourTable{}, false},
		{header, NeighbourTable{}, false},
		{append(header, 255, 255, 1, 0), NeighbourTable{}, false},
		{append(header, attribute(tableName, []byte("arp_cache\x00")...)...), NeighbourTable{Name: ARPTable}, false}, // the message has an interface's settings
		{append(header, attribute(tableThresh1, 1)...), NeighbourTable{}, false},
		{old, NeighbourTable{Name: ARPTable, Thresholds: [3]int{0, 0, 1024}}, true},
	} {
		table, isOne := parseTable(tt.message)
		if diff := cmp.Diff(tt.want, table); diff != "" || isOne != tt.isOne {
			t.Errorf("%v: %v (-want +got):\n%s", tt.message, isOne, diff)
		}
	}
}

// TestNextHopTo asks for four addresses in a network namespace of its own. No machine answers for
// the first, the second has a permanent MAC address, the third was never looked up, and the fourth
// is behind a router.
func TestNextHopTo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: a network namespace needs root")
	}
	runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
	if _, err := netns.New(); err != nil {
		t.Fatal(err)
	}
	wire(t, "192.0.2.1/24", "2001:db8::1/64")
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 7}
	for _, known := range []string{"192.0.2.7", "2001:db8::7"} {
		near, err := netlink.LinkByName("near")
		if err == nil {
			err = netlink.NeighSet(&netlink.Neigh{LinkIndex: near.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.ParseIP(known), HardwareAddr: mac})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, asked := range []string{"192.0.2.9", "2001:db8::9", "198.51.100.9"} {
		socket, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: net.ParseIP(asked), Port: 9})
		if err != nil {
			t.Fatal(err)
		}
		socket.Write([]byte("who has it?"))
		socket.Close()
	}
	for to, want := range map[string]NextHop{
		"192.0.2.7":    {Address: netip.MustParseAddr("192.0.2.7"), Known: true},
		"192.0.2.8":    {Address: netip.MustParseAddr("192.0.2.8")},
		"192.0.2.9":    {Address: netip.MustParseAddr("192.0.2.9"), Known: true, Unanswered: true},
		"198.51.100.9": {Address: netip.MustParseAddr("192.0.2.254"), Known: true, Unanswered: true},
		"2001:db8::7":  {Address: netip.MustParseAddr("2001:db8::7"), Known: true},
		"2001:db8::8":  {Address: netip.MustParseAddr("2001:db8::8")},
		"2001:db8::9":  {Address: netip.MustParseAddr("2001:db8::9"), Known: true, Unanswered: true},
	} {
		hop, err := NextHopTo(netip.MustParseAddr(to), "")
		if err != nil || hop != want {
			t.Errorf("to %s: %+v %v, want %+v", to, hop, err, want)
		}
	}
	if hop, err := NextHopTo(netip.MustParseAddr("203.0.113.1"), ""); err == nil {
		t.Errorf("without a route: %+v", hop)
	}
	learned, err := LearnedNeighbours()
	if err != nil || learned[ARPTable]["near"] != 2 { // .9 and the router count, but the permanent entry does not
		t.Errorf("learned %v %v", learned, err)
	}
}

// wire creates a link "near" that has addresses and no machine at its other end, and a route
// through a router.
func wire(t *testing.T, addresses ...string) {
	t.Helper()
	near := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "near"}, PeerName: "far"}
	if err := netlink.LinkAdd(near); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"far", "near"} {
		link, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(link)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range addresses {
		address, err := netlink.ParseAddr(text)
		if err == nil {
			address.Flags = unix.IFA_F_NODAD
			err = netlink.AddrAdd(near, address)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, elsewhere, _ := net.ParseCIDR("198.51.100.0/24")
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: near.Attrs().Index, Dst: elsewhere, Gw: net.ParseIP("192.0.2.254")}); err != nil {
		t.Fatal(err)
	}
}
