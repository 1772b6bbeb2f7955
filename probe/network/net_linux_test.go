// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

func TestLinkKind(t *testing.T) {
	tests := []struct {
		name, linkType, encap string
		device, wireless      bool
		want                  string
	}{
		{"lo", "device", "loopback", false, false, "loopback"},
		{"enp4s0", "device", "ether", true, false, "physical"},
		{"eth0", "device", "ether", false, false, "other"}, // the link has neither a driver nor a type
		{"wlp2s0", "device", "ether", true, true, "wireless"},
		{"ib0", "device", "infiniband", true, false, "infiniband"},
		{"ib0.8001", "ipoib", "infiniband", false, false, "infiniband"},
		{"docker0", "bridge", "ether", false, false, "docker"},
		{"docker_gwbridge", "bridge", "ether", false, false, "docker"},
		{"br-0123456789ab", "bridge", "ether", false, false, "docker"},
		{"br-lan", "bridge", "ether", false, false, "bridge"},
		{"br-0123456789abc", "bridge", "ether", false, false, "bridge"},
		{"virbr0", "bridge", "ether", false, false, "bridge"},
		{"veth12", "veth", "ether", false, false, "veth"},
		{"bond0", "bond", "ether", false, false, "bond"},
		{"eth0.7", "vlan", "ether", false, false, "vlan"},
		{"flannel.1", "vxlan", "ether", false, false, "tunnel"},
		{"tailscale0", "tuntap", "none", false, false, "tunnel"},
		{"wg0", "wireguard", "none", false, false, "tunnel"},
		{"dummy0", "dummy", "ether", false, false, "dummy"},
		{"macvlan0", "macvlan", "ether", false, false, "other"},
	}
	for _, tt := range tests {
		if got := linkKind(tt.name, tt.linkType, tt.encap, tt.device, tt.wireless); got != tt.want {
			t.Errorf("linkKind(%s, %s) = %s, want %s", tt.name, tt.linkType, got, tt.want)
		}
	}
}

func TestSysfsLinkIsTrustedOnlyForTheSameDevice(t *testing.T) {
	root := probetest.Plant(t, `
-- sys/class/net/eth0/ifindex --
4
-- sys/class/net/eth0/address --
02:fc:00:00:00:01
-- sys/class/net/eth0/speed --
400000
-- sys/class/net/eth0/device/vendor --
0x15b3
-- sys/class/net/eth1/ifindex --
5
-- sys/class/net/eth1/address --
02:fc:00:00:00:02
-- sys/class/net/eth1/speed --
-1
`)
	if err := os.Symlink("../../../../bus/pci/drivers/mlx5_core", root+"/sys/class/net/eth0/device/driver"); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, mac string
		index     int
		want      string
	}{
		{"eth0", "02:fc:00:00:00:01", 4, "mlx5_core 400000000000 true"},
		{"eth0", "02:fc:00:00:00:01", 2, " nil false"}, // the index is from another namespace
		{"eth0", "02:fc:00:00:00:99", 4, " nil false"}, // another device has this index
		{"eth1", "02:fc:00:00:00:02", 5, " nil false"}, // the driver does not know the speed
		{"eth2", "02:fc:00:00:00:03", 6, " nil false"}, // the link is not in this sysfs
		{"eth0", "", 4, "mlx5_core 400000000000 true"}, // a link without an address
	}
	o := machine.Options{Root: root}
	for _, tt := range tests {
		link := openSysfsLink(o, tt.name, tt.index, tt.mac)
		speed := "nil"
		if bits := link.speed(); bits != nil {
			speed = fmt.Sprint(*bits)
		}
		if got := fmt.Sprint(link.driver(), " ", speed, " ", link.has("device")); got != tt.want {
			t.Errorf("%s as %d %s: %q, want %q", tt.name, tt.index, tt.mac, got, tt.want)
		}
	}
}

func TestSettingsOfTheNetwork(t *testing.T) {
	o := machine.Options{Root: probetest.Plant(t, `
-- proc/sys/net/ipv4/tcp_rmem --
4096	131072	6291456
-- proc/sys/net/ipv4/ip_local_reserved_ports --

-- proc/sys/net/ipv6/conf/all/disable_ipv6 --
0
-- proc/net/if_inet6 --
`)}
	if got := sysctl(o, "net.ipv4.tcp_rmem"); got != "4096 131072 6291456" {
		t.Errorf("tcp_rmem = %q", got)
	}
	if got := sysctl(o, "net.ipv4.tcp_no_such"); got != "" {
		t.Errorf("a setting that is not there = %q", got)
	}
	if !hasIPv6(o) {
		t.Error("IPv6 is not seen")
	}
	for name, archive := range map[string]string{
		"switched off":       "-- proc/net/if_inet6 --\n-- proc/sys/net/ipv6/conf/all/disable_ipv6 --\n1\n",
		"not in this kernel": "-- proc/sys/net/ipv6/conf/all/disable_ipv6 --\n0\n",
	} {
		if hasIPv6(machine.Options{Root: probetest.Plant(t, archive)}) {
			t.Errorf("IPv6 is seen though it is %s", name)
		}
	}
	if low, high := parsePortRange("32768 60999"); low != 32768 || high != 60999 {
		t.Errorf("parsePortRange = %d, %d", low, high)
	}
	if low, high := parsePortRange(""); low != 0 || high != 0 {
		t.Errorf("parsePortRange of nothing = %d, %d", low, high)
	}
}

func TestListeners(t *testing.T) {
	root := probetest.Plant(t, `
-- proc/net/tcp --
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 17 1 0 100 0 0 10 0
   2: 0100007F:733C 0100007F:8000 01 00000000:00000000 00:00000000 00000000  1000        0 4243 1 0 100 0 0 10 0
-- proc/net/tcp6 --
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     5        0 99 1 0 100 0 0 10 0
-- proc/31/fd/.keep --
`)
	for link, target := range map[string]string{"3": "socket:[17]", "4": "socket:[4242]", "5": "/dev/null"} {
		if err := os.Symlink(target, root+"/proc/31/fd/"+link); err != nil {
			t.Fatal(err)
		}
	}
	command := "python\x00-u\x00train.py\x00--token=hunter2\x00x\x00"
	if err := os.WriteFile(root+"/proc/31/cmdline", []byte(command), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(root + "/proc/31/fd/.keep"); err != nil {
		t.Fatal(err)
	}
	got, err := listeners(t.Context(), machine.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	want := []facts.Listener{
		{Address: "0.0.0.0", Port: 22, UID: 0}, // preflight did not search for the process at this port
		{Address: "::", Port: 8080, UID: 5},
		{Address: "127.0.0.1", Port: 29500, PID: 31, Command: "python -u train.py", UID: 1000},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestShortCommand(t *testing.T) {
	tests := []struct{ words, want string }{
		{"python -u -m torch.distributed.run --nproc 8", "python -u -m torch.distributed.run"},
		{"train --api-key=hunter2 more", "train"},
		{"curl https://me:hunter2@host/", "curl"},
		{"PROG=1", "PROG=1"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := shortCommand(strings.Fields(tt.words)); got != tt.want {
			t.Errorf("shortCommand(%q) = %q, want %q", tt.words, got, tt.want)
		}
	}
}

func TestParseSocketLink(t *testing.T) {
	for target, want := range map[string]uint64{"socket:[12345]": 12345, "pipe:[7]": 0, "socket:[x]": 0, "/tmp/socket:[1]": 0} {
		if inode, ok := parseSocketLink(target); inode != want || ok != (want != 0) {
			t.Errorf("parseSocketLink(%q) = %d, %v", target, inode, ok)
		}
	}
}

func TestCollectNetFindsItsOwnListener(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	seen, err := CollectNet(t.Context(), machine.Options{MasterPort: port, Peers: map[string]string{"me": "127.0.0.1", "who": "w1"}})
	if err != nil {
		t.Fatal(err)
	}
	var holder int
	for _, l := range seen.Listening {
		if l.Port == port {
			holder = l.PID
		}
	}
	if holder != os.Getpid() {
		t.Errorf("port %d is held by %d, want %d", port, holder, os.Getpid())
	}
	want := []facts.Route{
		{Name: "me", To: "127.0.0.1", Interface: "lo", Source: "127.0.0.1"},
		{Name: "who", To: "w1", Error: "not an IP address"},
	}
	if diff := cmp.Diff(want, seen.Routes); diff != "" {
		t.Errorf("routes (-want +got)\n%s", diff)
	}
	if lo := seen.Interfaces[0]; lo.Name != "lo" || lo.Kind != "loopback" || !lo.Loopback || !lo.Up || lo.Addresses[0] != "127.0.0.1/8" {
		t.Errorf("first interface %+v", lo)
	}
	if seen.EphemeralLow == 0 || seen.SoMaxConn == 0 || seen.TCP["net.ipv4.tcp_congestion_control"] == "" {
		t.Errorf("settings not read: %+v", seen)
	}
}

// TestListenersOfAPreflight checks that a listener belongs to another preflight if that preflight
// has the turn at the port. Other listeners must not.
func TestListenersOfAPreflight(t *testing.T) {
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	look := func() facts.Listener {
		t.Helper()
		seen, err := listeners(t.Context(), machine.Options{MasterPort: port})
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(seen, func(l facts.Listener) bool { return l.Port == port })
		if at < 0 {
			t.Fatal("the listener was not found")
		}
		return seen[at]
	}
	if seen := look(); seen.Preflight {
		t.Errorf("a preflight is taken to listen where none does: %+v", seen)
	}
	turn, _, err := hostsys.TakeTurn(t.Context(), hostsys.TurnAtPort(port))
	if err != nil {
		t.Fatal(err)
	}
	defer turn.End()
	if seen := look(); !seen.Preflight {
		t.Errorf("a preflight listens: %+v", seen)
	}
}

func TestIsPreflight(t *testing.T) {
	turn := &hostsys.Taken{PID: 4711, UID: 1000}
	for _, test := range []struct {
		what string
		socket
		want bool
	}{
		{"seen to have it", socket{facts.Listener{Address: "::", PID: 4711, UID: 1000}, 1, turn}, true},
		{"another user's process, not to be seen", socket{facts.Listener{Address: "0.0.0.0", UID: 1000}, 1, turn}, true},
		{"another process of its user", socket{facts.Listener{Address: "::", PID: 4712, UID: 1000}, 1, turn}, false},
		{"another user", socket{facts.Listener{Address: "::", UID: 1001}, 1, turn}, false},
		{"one address, where no preflight listens", socket{facts.Listener{Address: "::1", UID: 1000}, 1, turn}, false},
		{"nobody has the turn", socket{facts.Listener{Address: "::", UID: 1000}, 1, nil}, false},
	} {
		if got := test.isPreflight(); got != test.want {
			t.Errorf("%s: %v", test.what, got)
		}
	}
}

// TestCollectNetInANamespace uses a separate network namespace. The /sys of the first namespace is
// still mounted in it, and must not be trusted.
func TestCollectNetInANamespace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: making a network namespace needs root")
	}
	onThreadThatEnds(func() { inNamespace(t) })
}

// onThreadThatEnds runs work on a thread that ends after work, together with the thread's
// namespace. The main thread cannot end, and /proc/self would show its namespace to every later
// test. So the main thread only waits.
func onThreadThatEnds(work func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			onThreadThatEnds(work)
			runtime.UnlockOSThread()
			return
		}
		work()
	}()
	<-done
}

func inNamespace(t *testing.T) {
	must := func(what string, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	handle, err := netns.New()
	must("new namespace", err)
	defer handle.Close()

	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br-0123456789ab"}}
	must("bridge", netlink.LinkAdd(bridge))
	must("veth", netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0", MTU: 9000}, PeerName: "peer0"}))
	eth0, err := netlink.LinkByName("eth0")
	must("eth0", err)
	peer0, err := netlink.LinkByName("peer0")
	must("peer0", err)
	must("master", netlink.LinkSetMaster(peer0, bridge))
	for _, address := range []string{"fd00:77::1/64", "10.77.0.1/24", "10.77.1.1/24"} {
		parsed, err := netlink.ParseAddr(address)
		must(address, err)
		must(address, netlink.AddrAdd(eth0, parsed))
	}
	must("up", netlink.LinkSetUp(eth0))

	seen, err := CollectNet(t.Context(), machine.Options{Peers: map[string]string{"a": "10.77.1.9", "b": "10.99.0.1"}})
	must("collectNet", err)
	if t.Failed() {
		return
	}
	shown := map[string]string{}
	for _, i := range seen.Interfaces {
		shown[i.Name] = fmt.Sprintf("%s mtu=%d up=%v running=%v driver=%q master=%q", i.Kind, i.MTU, i.Up, i.Running, i.Driver, i.Master)
		if i.Name == "eth0" {
			if diff := cmp.Diff([]string{"10.77.0.1/24", "10.77.1.1/24", "fd00:77::1/64"}, withoutLinkLocal(i.Addresses)); diff != "" {
				t.Errorf("addresses (-want +got)\n%s", diff)
			}
		}
	}
	want := map[string]string{
		"eth0":            `veth mtu=9000 up=true running=false driver="" master=""`, // the other end of the veth pair is down
		"peer0":           `veth mtu=9000 up=false running=false driver="" master="br-0123456789ab"`,
		"br-0123456789ab": `docker mtu=9000 up=false running=false driver="" master=""`,
	}
	for name, want := range want {
		if shown[name] != want {
			t.Errorf("%s: %s, want %s", name, shown[name], want)
		}
	}
	routes := []facts.Route{
		{Name: "a", To: "10.77.1.9", Interface: "eth0", Source: "10.77.1.1"},
		{Name: "b", To: "10.99.0.1", Error: "network is unreachable"},
	}
	if diff := cmp.Diff(routes, seen.Routes); diff != "" {
		t.Errorf("routes (-want +got)\n%s", diff)
	}
}

func withoutLinkLocal(addresses []string) []string {
	var kept []string
	for _, address := range addresses {
		if !strings.HasPrefix(address, "fe80:") {
			kept = append(kept, address)
		}
	}
	return kept
}
