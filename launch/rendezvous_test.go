// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/testhosts/launchtest"
)

// TestDeepSpeedMeeting follows deepspeed/launcher/runner.py, main, and deepspeed/comm/comm.py,
// mpi_discovery, 0.19.6 of development.
func TestDeepSpeedMeeting(t *testing.T) {
	docker := launchtest.Net("lo 127.0.0.1/8", "docker0 172.17.0.1/16", "eth0 10.0.0.1/24")
	const asks = "DeepSpeed uses the first address that `hostname -I` prints on w1"
	for _, c := range []struct {
		name  string
		p     Prediction
		net   *facts.Net
		noise []string
		want  Endpoint
	}{
		{"the first address", Prediction{Launcher: "pdsh", MasterPort: 29500}, docker, nil,
			Endpoint{Host: "172.17.0.1", Port: 29500, Rule: asks + ": 172.17.0.1 (docker0)"}},
		{"the first word of noise", Prediction{Launcher: "pdsh", MasterPort: 29500}, docker, []string{"", "  Welcome to w1", "have fun"},
			Endpoint{Host: "Welcome", Port: 29500, Rule: asks + ": a start-up file printed it"}},
		{"empty lines are no words", Prediction{Launcher: "pdsh", MasterPort: 29500}, docker, []string{"", " "},
			Endpoint{Host: "172.17.0.1", Port: 29500, Rule: asks + ": 172.17.0.1 (docker0)"}},
		{"noise, nothing seen", Prediction{Launcher: "pdsh", MasterPort: 29500}, nil, []string{"hi"},
			Endpoint{Host: "hi", Port: 29500, Rule: asks + ": a start-up file printed it"}},
		{"given", Prediction{Launcher: "pdsh", MasterAddr: "w1.cluster", MasterPort: 4000}, docker, []string{"hi"},
			Endpoint{Host: "w1.cluster", Port: 4000, Rule: "--master_addr"}},
		{"a single host asks ssh too", Prediction{Launcher: "pdsh", Local: true, MasterPort: 29500}, docker, nil,
			Endpoint{Host: "172.17.0.1", Port: 29500, Rule: asks + ": 172.17.0.1 (docker0)"}},
		{"mpich passes it on", Prediction{Launcher: "mpich", MasterAddr: "10.0.0.1", MasterPort: 4000}, docker, nil,
			Endpoint{Host: "10.0.0.1", Port: 4000, Rule: "--master_addr"}},
		{"openmpi does not, and rank 0 has no login", Prediction{Launcher: "openmpi", MasterAddr: "10.0.0.1", MasterPort: 4000}, docker, []string{"hi"},
			Endpoint{Host: "172.17.0.1", Port: 29500, Rule: "--launcher openmpi passes no address on: rank 0 uses the first address of its own `hostname -I`: 172.17.0.1 (docker0)"}},
		{"IPv6 only", Prediction{Launcher: "pdsh", MasterPort: 29500}, launchtest.Net("eth0 fd00::1/64"), nil,
			Endpoint{Host: "fd00::1", Port: 29500, Rule: asks + ": fd00::1 (eth0)"}},
		{"nothing to print", Prediction{Launcher: "pdsh", MasterPort: 29500}, launchtest.Net("lo 127.0.0.1/8", "!eth0 10.0.0.1/24"), nil,
			Endpoint{Port: 29500, Error: "IndexError: list index out of range (`hostname -I` prints nothing on w1: no interface except the loopback is up and has an address)"}},
		{"not seen", Prediction{Launcher: "pdsh", MasterPort: 29500}, nil, nil,
			Endpoint{Port: 29500, Rule: asks, Error: "the network of w1 was not seen, so preflight does not know what `hostname -I` prints there"}},
	} {
		first := launchtest.Node(c.net, nil)
		first.SSH = &facts.SSH{Noise: c.noise}
		if diff := cmp.Diff(c.want, c.p.Endpoint(first)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

// TestAddressCommand: what node 0 answered decides, and not its interfaces.
func TestAddressCommand(t *testing.T) {
	docker := launchtest.Net("lo 127.0.0.1/8", "docker0 172.17.0.1/16", "eth0 10.0.0.1/24")
	names := launchtest.Names("w1 10.0.0.9")
	pdsh, given, mpi := Prediction{Launcher: "pdsh", MasterPort: 29500}, Prediction{Launcher: "pdsh", MasterAddr: "10.0.0.1", MasterPort: 29500, AsksFirst: true}, Prediction{Launcher: "openmpi", MasterAddr: "10.0.0.1"}
	const asks = "DeepSpeed uses the first address that `hostname -I` prints on w1"
	for _, c := range []struct {
		name    string
		p       Prediction
		answer  facts.AddressAnswer
		want    Endpoint
		refused string
	}{
		{"another order", pdsh, facts.AddressAnswer{Command: "hostname -I", First: "10.0.0.1"}, Endpoint{Host: "10.0.0.1", Port: 29500, Rule: asks + ": 10.0.0.1 (eth0)"}, ""},
		{"an address of no interface", pdsh, facts.AddressAnswer{Command: "hostname -I", First: "10.9.9.9"}, Endpoint{Host: "10.9.9.9", Port: 29500, Rule: asks}, ""},
		{"nothing", pdsh, facts.AddressAnswer{Command: "hostname -I"}, Endpoint{Port: 29500, Error: "IndexError: list index out of range (`hostname -I` prints nothing on w1)"}, ""},
		{"refused", pdsh, facts.AddressAnswer{Command: "hostname -I", Exit: 64, Problem: "no -I"},
			Endpoint{Port: 29500, Error: "subprocess.CalledProcessError: Command '['ssh', 'w1', 'hostname', '-I']' returned non-zero exit status 64. (no -I)"},
			"subprocess.CalledProcessError: Command '['ssh', 'w1', 'hostname', '-I']' returned non-zero exit status 64."},
		{"late", pdsh, facts.AddressAnswer{Command: "hostname -I", Problem: "late", Unanswered: true}, Endpoint{Host: "172.17.0.1", Port: 29500, Rule: asks + ": 172.17.0.1 (docker0)"}, ""},
		{"no such program", given, facts.AddressAnswer{Command: "hostname", Exit: 127, Problem: "not found"},
			Endpoint{Host: "10.0.0.1", Port: 29500, Rule: "--master_addr"}, "RuntimeError: Using hostfile at … but host=w1 was not reachable via ssh."},
		{"rank 0 falls back", mpi, facts.AddressAnswer{Command: "hostname -I", Exit: 1, Problem: "no -I"},
			Endpoint{Host: "10.0.0.9", Port: 29500, Rule: "--launcher openmpi passes no address on: rank 0 uses the first address of its own `hostname -I`, which fails: so it uses the address of its own name"}, ""},
	} {
		first := launchtest.Node(docker, names)
		first.Names.AddressAnswer = &c.answer
		if got := c.p.AddressCommand(); got != c.answer.Command {
			t.Errorf("%s: AddressCommand() = %q, want %q", c.name, got, c.answer.Command)
		}
		if diff := cmp.Diff(c.want, c.p.Endpoint(first)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
		if refused, _ := c.p.AddressRefused(first); refused != c.refused {
			t.Errorf("%s: AddressRefused() = %q, want %q", c.name, refused, c.refused)
		}
		first.SSH = &facts.SSH{Inside: []string{"docker", "exec", "-i", "train"}}
		if refused, _ := c.p.AddressRefused(first); refused != "" {
			t.Errorf("%s: AddressRefused() in a container = %q", c.name, refused)
		}
	}
}

// TestHostnameI: Debian's hostname 3.23 printed this line on a machine with these interfaces. They
// were added in another order than that of their names and indexes.
func TestHostnameI(t *testing.T) {
	net := launchtest.Net(
		"lo 127.0.0.1/8 10.0.0.9/32 ::1/128",
		"z0 10.9.0.1/24 10.1.0.1/24 2001:db8::5/64 fe80::7a:dcff:fe26:72aa/64",
		"a1 10.2.0.1/16 fd01::1/64 fe80::d4c6:3aff:fe86:bd00/64",
		"~b2 127.0.9.9/8 169.254.3.3/16 fec0::1/64 fe80::b482:a3ff:fe5f:93cf/64",
		"!e4 10.77.0.1/24")
	want := []string{"10.9.0.1", "10.1.0.1", "10.2.0.1", "127.0.9.9", "169.254.3.3", "2001:db8::5", "fd01::1", "fec0::1"}
	var got []string
	for _, h := range hostnameI(launchtest.Node(net, nil)) {
		got = append(got, h.Addr().String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestTorchrunMeeting follows pytorch/pytorch 2.15, distributed/run.py, static_tcp_rendezvous.py
// and c10d_rendezvous_backend.py.
func TestTorchrunMeeting(t *testing.T) {
	const itself = "every node connects to itself"
	for _, c := range []struct {
		name string
		p    Prediction
		want Endpoint
	}{
		{"static", Prediction{Rendezvous: "static", MasterAddr: "w1", MasterPort: 4000},
			Endpoint{Host: "w1", Port: 4000, Rule: "--master_addr and --master_port"}},
		{"static, IPv6", Prediction{Rendezvous: "static", MasterAddr: "fd00::1", MasterPort: 4000},
			Endpoint{Host: "fd00::1", Port: 4000, Rule: "--master_addr and --master_port"}},
		{"static by default", Prediction{Rendezvous: "static", MasterPort: 29500},
			Endpoint{Host: "127.0.0.1", Port: 29500, Rule: "torchrun's default without --master_addr: " + itself}},
		{"static by endpoint", Prediction{Rendezvous: "static", MasterAddr: "w1", MasterPort: 29500, RdzvEndpoint: "w2:5000"},
			Endpoint{Host: "w2", Port: 5000, Rule: "--rdzv_endpoint=w2:5000"}},
		{"static without a port", Prediction{Rendezvous: "static", MasterPort: 29500, RdzvEndpoint: "w2"},
			Endpoint{Error: "ValueError: Port is absent in endpoint: w2. Try launching with --master_port"}},
		{"static, blank", Prediction{Rendezvous: "static", MasterPort: 29500, RdzvEndpoint: " "},
			Endpoint{Error: "ValueError: endpoint is absent in RendezvousParametersTry add --master_port and --master_addr to the cmd request"}},
		{"static, unreadable", Prediction{Rendezvous: "static", MasterPort: 29500, RdzvEndpoint: "w2:x"},
			Endpoint{Error: "ValueError: The port number of the rendezvous endpoint 'w2:x' must be an integer between 0 and 65536"}},
		{"c10d", Prediction{Rendezvous: "c10d", MasterAddr: "10.0.0.9", MasterPort: 29500, RdzvEndpoint: "w1"},
			Endpoint{Host: "w1", Port: 29400, Rule: "--rdzv_endpoint=w1"}},
		{"c10d with a port", Prediction{Rendezvous: "c10d", RdzvEndpoint: "w1:5000"},
			Endpoint{Host: "w1", Port: 5000, Rule: "--rdzv_endpoint=w1:5000"}},
		{"c10d by default", Prediction{Rendezvous: "c10d", MasterAddr: "10.0.0.9", MasterPort: 29500},
			Endpoint{Host: "localhost", Port: 29400, Rule: "torchrun's default without --rdzv_endpoint: " + itself}},
		{"c10d, unreadable", Prediction{Rendezvous: "c10d", RdzvEndpoint: "u@w1"},
			Endpoint{Error: "ValueError: The hostname of the rendezvous endpoint 'u@w1' must be a dot-separated list of labels, an IPv4 address, or an IPv6 address"}},
		{"in a service", Prediction{Rendezvous: "etcd-v2", RdzvEndpoint: "e:2379", MasterAddr: "w1", MasterPort: 29500},
			Endpoint{Error: "the rendezvous etcd-v2 is a separate service, at e:2379, which tells the ranks where to connect"}},
		{"in a service nowhere", Prediction{Rendezvous: "etcd"},
			Endpoint{Error: "the rendezvous etcd is a separate service, at no endpoint, which tells the ranks where to connect"}},
	} {
		if diff := cmp.Diff(c.want, c.p.Endpoint(&facts.Node{Name: "w1"})); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestMeetingHost(t *testing.T) {
	for _, c := range []struct {
		p    Prediction
		want string
	}{
		{Prediction{Launcher: "pdsh"}, ""},
		{Prediction{Launcher: "pdsh", MasterAddr: "w1"}, "w1"},
		{Prediction{Launcher: "slurm", MasterAddr: "w1"}, ""},
		{Prediction{Launcher: "slurm", Local: true, MasterAddr: "w1"}, "w1"},
		{Prediction{Launcher: "pdsh", Rendezvous: "static", MasterAddr: "w1", MasterPort: 1}, "w1"},
		{Prediction{Launcher: "pdsh", Rendezvous: "c10d", MasterAddr: "w1"}, "localhost"},
		{Prediction{Launcher: "slurm", Rendezvous: "c10d", RdzvEndpoint: "w2:1"}, "w2"},
		{Prediction{Rendezvous: "etcd-v2", RdzvEndpoint: "e:1", MasterAddr: "w1"}, ""},
	} {
		if got := c.p.EndpointHost(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.p, got, c.want)
		}
	}
}

const (
	badPort = "ValueError: The port number of the rendezvous endpoint '%s' must be an integer between 0 and 65536"
	badHost = "ValueError: The hostname of the rendezvous endpoint '%s' must be a dot-separated list of labels, an IPv4 address, or an IPv6 address"
)

// TestParseEndpoint follows parse_rendezvous_endpoint of pytorch/pytorch. Every row was also run
// with 2.15.
func TestParseEndpoint(t *testing.T) {
	for _, c := range []struct {
		endpoint string
		want     string // host and port, or the error
	}{
		{"", "localhost 29400"},
		{"  ", "localhost 29400"},
		{"w1", "w1 29400"},
		{" w1:29500\n", "w1 29500"},
		{"w1.cluster:0", "w1.cluster 0"},
		{"10.0.0.1:65535", "10.0.0.1 65535"},
		{"10.0.0.1:65536", badPort},
		{"w1:", badPort},
		{"w1:x", badPort},
		{"w1:+1", badPort},
		{"w1:123456", badPort},
		{"w1:000001", badPort},
		{"w1:00001", "w1 1"},
		{"[fd00::1]", "fd00::1 29400"},
		{"[fd00::1]:29500", "fd00::1 29500"},
		{"fd00::1", "fd00: 1"}, // the brackets are missing, so the last part is read as the port
		{"fd00::1:29500", "fd00::1 29500"},
		{"fd00::", badPort},
		{"[]", badHost},
		{"[w1", badHost},
		{":29500", badHost},
		{"user@w1:29500", badHost},
		{"fe80::1%eth0:29500", badHost},
		{"w_1-a:29500", "w_1-a 29500"},
		{"wö:29500", "wö 29500"},
		{"w 1:29500", badHost},
	} {
		got := ""
		host, port, err := ParseEndpoint(c.endpoint, 29400)
		if got = fmt.Sprintf("%s %d", host, port); err != nil {
			got = err.Error()
		}
		want := c.want
		if strings.Contains(want, "%s") {
			want = fmt.Sprintf(want, strings.TrimSpace(c.endpoint))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", c.endpoint, diff)
		}
	}
}

// FuzzParseEndpoint: an accepted endpoint has a host of the allowed characters and a port in range.
// If it is written in full, it is parsed in the same way.
func FuzzParseEndpoint(f *testing.F) {
	for _, seed := range []string{"", "w1", "w1:29500", "[fd00::1]:1", "[fd00::1]", "fd00::1", "a:b:c", "[[a]]", "w1:65536", ":1", "[", "]:1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, endpoint string) {
		host, port, err := ParseEndpoint(endpoint, 29400)
		if err != nil {
			return
		}
		if host == "" || port < 0 || port > 65535 || strings.ContainsAny(host, "[]@%/ \t\n") {
			t.Fatalf("%q: %q, %d", endpoint, host, port)
		}
		full := fmt.Sprintf("%s:%d", host, port)
		if address, err := netip.ParseAddr(host); err == nil && address.Is6() {
			full = fmt.Sprintf("[%s]:%d", host, port)
		}
		if again, samePort, err := ParseEndpoint(full, 0); err != nil || again != host || samePort != port {
			t.Fatalf("%q: %q, %d; again by %q: %q, %d, %v", endpoint, host, port, full, again, samePort, err)
		}
	})
}
