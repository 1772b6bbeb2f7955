// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
)

// The known values of Options.Rendezvous, which says how ranks find each other. torchrun has more
// backends (etcd, etcd-v2, and those of plugins).
const (
	RendezvousDeepSpeed = "deepspeed" // env://, at the address that DeepSpeed's launcher passes on
	RendezvousStatic    = "static"    // torchrun --rdzv_backend=static, with --node_rank on every node
	RendezvousC10d      = "c10d"      // torchrun --rdzv_backend=c10d
)

const (
	// DefaultC10dPort is DEFAULT_PORT of c10d_rendezvous_backend.py.
	DefaultC10dPort = 29400
	// StandaloneEndpoint is the endpoint of torchrun --standalone, regardless of other options.
	// Port 0 means any free port (torch/distributed/run.py, run, 1.13 to 2.15).
	StandaloneEndpoint = "localhost:0"
	// defaultStaticHost is the default of --master_addr in torch/distributed/run.py.
	defaultStaticHost = "127.0.0.1"
)

// Endpoint is where the ranks' rendezvous takes place.
type Endpoint struct {
	Host  string // a name or address as the ranks get it; "" if Error is set
	Port  int
	Rule  string // how the host was determined, as text for people
	Error string // why there is no endpoint
}

// Endpoint returns the endpoint of the rendezvous. first is the node of rank 0.
func (p Prediction) Endpoint(first *facts.Node) Endpoint {
	switch p.Rendezvous {
	case RendezvousStatic:
		return p.staticEndpoint()
	case RendezvousC10d:
		host, port, err := ParseEndpoint(p.RdzvEndpoint, DefaultC10dPort)
		if err != nil {
			return Endpoint{Error: err.Error()}
		}
		rule := "--rdzv_endpoint=" + p.RdzvEndpoint
		switch strings.TrimSpace(p.RdzvEndpoint) {
		case "":
			rule = "torchrun's default without --rdzv_endpoint: every node connects to itself"
		case StandaloneEndpoint:
			rule += ", which is what --standalone means"
		}
		return Endpoint{Host: host, Port: port, Rule: rule}
	}
	if p.HasExternalRendezvous() {
		return Endpoint{Error: fmt.Sprintf("the rendezvous %s is a separate service, at %s, which tells the ranks where to connect", p.Rendezvous, cmp.Or(p.RdzvEndpoint, "no endpoint"))}
	}
	return p.deepspeedEndpoint(first)
}

// HasExternalRendezvous reports whether a separate service keeps the rendezvous, for a torchrun
// backend other than static and c10d. preflight predicts nothing about it.
func (p Prediction) HasExternalRendezvous() bool {
	return p.Torchrun() && p.Rendezvous != RendezvousStatic && p.Rendezvous != RendezvousC10d
}

// EndpointHost returns the host of the rendezvous if the command line names it. It returns "" if
// the host depends on a node's facts.
func (p Prediction) EndpointHost() string {
	switch {
	case p.Torchrun():
		return p.Endpoint(nil).Host
	case p.DiscoversMaster():
		return ""
	}
	return p.MasterAddr
}

// staticEndpoint returns --rdzv_endpoint if it is given, otherwise --master_addr and --master_port.
//
// Source: pytorch/pytorch 2.15, distributed/run.py, get_rdzv_endpoint;
// elastic/rendezvous/static_tcp_rendezvous.py, create_rdzv_handler.
func (p Prediction) staticEndpoint() Endpoint {
	endpoint, rule := p.RdzvEndpoint, "--rdzv_endpoint="+p.RdzvEndpoint
	if endpoint == "" {
		endpoint = fmt.Sprintf("%s:%d", cmp.Or(p.MasterAddr, defaultStaticHost), p.MasterPort)
		rule = "--master_addr and --master_port"
		if p.MasterAddr == "" {
			rule = "torchrun's default without --master_addr: every node connects to itself"
		}
	}
	const none = -1
	host, port, err := ParseEndpoint(endpoint, none)
	switch {
	case strings.TrimSpace(endpoint) == "":
		return Endpoint{Error: "ValueError: endpoint is absent in RendezvousParametersTry add --master_port and --master_addr to the cmd request"}
	case err != nil:
		return Endpoint{Error: err.Error()}
	case port == none:
		return Endpoint{Error: fmt.Sprintf("ValueError: Port is absent in endpoint: %s. Try launching with --master_port", endpoint)}
	}
	return Endpoint{Host: host, Port: port, Rule: rule}
}

// DiscoversMaster reports whether the ranks themselves find out where their rendezvous is.
func (p Prediction) DiscoversMaster() bool { return !p.Local && p.StartedBy().MPIDiscovery }

// These are the commands that DeepSpeed runs on the first host over ssh before it starts ranks: a
// test of the login, and the question for the master address.
const (
	typedTest = "hostname"
	typedAsk  = "hostname -I"
)

// AddressCommand returns the command whose result on the first host decides what DeepSpeed does. It
// returns "" if there is no such command. Before the question for the address, DeepSpeed also runs
// the test of the login. A first host that fails the test fails the question as well.
//
// Source: deepspeed/launcher/runner.py, main, and deepspeed/comm/comm.py, mpi_discovery, 0.4.0 to
// 0.19.8.
func (p Prediction) AddressCommand() string {
	switch {
	case p.Torchrun():
		return ""
	case p.MasterAddr == "", p.DiscoversMaster():
		return typedAsk
	case p.AsksFirst:
		return typedTest
	}
	return ""
}

// addressAnswer returns the result of a command on a node, nil if it is not known. The agent in a
// container does not know it, because DeepSpeed's ssh leads to the node itself.
func addressAnswer(node *facts.Node, command string) *facts.AddressAnswer {
	if node != nil && node.SSH != nil && node.SSH.Inside != nil {
		return nil
	}
	if node == nil || node.Names == nil || node.Names.AddressAnswer == nil || node.Names.AddressAnswer.Command != command || node.Names.AddressAnswer.Unanswered {
		return nil
	}
	return node.Names.AddressAnswer
}

// AddressRefused returns DeepSpeed's error if the command of [Prediction.AddressCommand] failed on the
// first host, and "" if it succeeded or if its result is not known. If the ranks of an MPI launcher
// find the address themselves, the runner asks for it only if the command line has none.
func (p Prediction) AddressRefused(first *facts.Node) (original string, result facts.AddressAnswer) {
	done := addressAnswer(first, p.AddressCommand())
	switch {
	case done == nil, done.Problem == "", done.Command == typedAsk && p.MasterAddr != "":
		return "", facts.AddressAnswer{}
	case done.Command == typedTest, done.Exit == NotFound && p.AsksFirst:
		return fmt.Sprintf("RuntimeError: Using hostfile at … but host=%s was not reachable via ssh.", first.Name), *done
	}
	return fmt.Sprintf("subprocess.CalledProcessError: Command '['ssh', '%s', 'hostname', '-I']' returned non-zero exit status %d.", first.Name, done.Exit), *done
}

// NotFound is the exit status of a shell that does not find a command (POSIX, 2.8.2).
const NotFound = 127

// deepspeedEndpoint returns --master_addr if it is given, otherwise the first word that "ssh FIRST
// hostname -I" prints. If start-up files print text, that text comes before the addresses. The rule
// is the same for a single host, whose ranks run on the launching machine.
//
// If the node's answer is missing, the endpoint is what Debian's hostname would print. With an MPI
// launcher, rank 0 runs the program itself. If the program fails there, the rank uses the address
// of its own name.
//
// Source: deepspeed/launcher/runner.py, main, 0.4.0 to 0.19.8, and deepspeed/comm/comm.py,
// mpi_discovery.
func (p Prediction) deepspeedEndpoint(first *facts.Node) Endpoint {
	asks := "DeepSpeed uses the first address that `hostname -I` prints on " + first.Name
	port := p.MasterPort
	if p.MasterAddr != "" && !p.DiscoversMaster() {
		return Endpoint{Host: p.MasterAddr, Port: port, Rule: "--master_addr"}
	}
	if original, result := p.AddressRefused(first); original != "" {
		return Endpoint{Port: port, Error: fmt.Sprintf("%s (%s)", original, result.Problem)}
	}
	answer := addressAnswer(first, typedAsk)
	if p.DiscoversMaster() {
		asks = fmt.Sprintf("--launcher %s passes no address on: rank 0 uses the first address of its own `hostname -I`", p.Launcher)
		port = DefaultMasterPort
		if answer != nil && answer.Problem != "" && first.Names != nil {
			if own, _ := LookedUp(first.Names, first.Names.Own); len(own) > 0 {
				return Endpoint{Host: own[0].String(), Port: port, Rule: asks + ", which fails: so it uses the address of its own name"}
			}
		}
	} else if first.SSH != nil {
		if words := strings.Fields(strings.Join(first.SSH.Noise, " ")); len(words) > 0 {
			return Endpoint{Host: words[0], Port: port, Rule: asks + ": a start-up file printed it"}
		}
	}
	switch {
	case answer != nil && answer.Problem == "" && answer.First == "":
		return Endpoint{Port: port, Error: fmt.Sprintf("IndexError: list index out of range (`hostname -I` prints nothing on %s)", first.Name)}
	case answer != nil && answer.Problem == "":
		return Endpoint{Host: answer.First, Port: port, Rule: asks + holderOf(first, answer.First)}
	case first.Net == nil:
		return Endpoint{Port: port, Rule: asks, Error: "the network of " + first.Name + " was not seen, so preflight does not know what `hostname -I` prints there"}
	}
	addresses := hostnameI(first)
	if len(addresses) == 0 {
		return Endpoint{Port: port, Error: fmt.Sprintf("IndexError: list index out of range (`hostname -I` prints nothing on %s: no interface except the loopback is up and has an address)", first.Name)}
	}
	return Endpoint{Host: addresses[0].Addr().String(), Port: port, Rule: fmt.Sprintf("%s: %s (%s)", asks, addresses[0].Addr(), addresses[0].Name)}
}

// holderOf returns ": eth0's" for the interface of the node that has an address, "" for none.
func holderOf(node *facts.Node, address string) string {
	if node.Net != nil {
		for _, held := range HeldAddresses(node) {
			if held.Addr().String() == address {
				return fmt.Sprintf(": %s (%s)", address, held.Name)
			}
		}
	}
	return ""
}

// hostnameI returns the addresses that hostname -I prints: those of all interfaces that are up,
// without loopback addresses and IPv6 link-local addresses.
//
// Source: Debian's hostname 3.23, run on interfaces of all these kinds.
func hostnameI(node *facts.Node) []HeldAddress {
	return slices.DeleteFunc(HeldAddresses(node), func(h HeldAddress) bool {
		return h.Loopback || !h.Up || h.Addr().Is6() && h.Addr().IsLinkLocalUnicast()
	})
}

// The patterns of hosts and ports that torch accepts. Python's \w covers all alphabets.
var (
	endpointHost = regexp.MustCompile(`^[\p{L}\p{N}_.:-]+$`)
	endpointPort = regexp.MustCompile(`^[0-9]{1,5}$`)
)

// ParseEndpoint parses torchrun's --rdzv_endpoint, host[:port], with torchrun's rules. An IPv6
// address may be in brackets, and must be if there is no port. An empty value means localhost. The
// errors are torch's own. ParseEndpoint also accepts a host that is neither a name nor an address;
// looking up such a host fails later.
//
// Source: pytorch/pytorch, elastic/rendezvous/utils.py, parse_rendezvous_endpoint, the same in
// 1.13, 2.4 and 2.15.
func ParseEndpoint(endpoint string, defaultPort int) (host string, port int, err error) {
	endpoint = strings.TrimSpace(endpoint)
	if endpoint == "" {
		return "localhost", defaultPort, nil
	}
	host, port = endpoint, defaultPort
	isBare := strings.HasPrefix(endpoint, "[") && strings.HasSuffix(endpoint, "]")
	if colon := strings.LastIndexByte(endpoint, ':'); colon >= 0 && !isBare {
		text := endpoint[colon+1:]
		number, err := strconv.Atoi(text)
		if err != nil || !endpointPort.MatchString(text) || number > 65535 {
			return "", 0, fmt.Errorf("ValueError: The port number of the rendezvous endpoint '%s' must be an integer between 0 and 65536", endpoint)
		}
		host, port = endpoint[:colon], number
	}
	if inside, opened := strings.CutPrefix(host, "["); opened && strings.HasSuffix(inside, "]") {
		host = strings.TrimSuffix(inside, "]")
	}
	if !endpointHost.MatchString(host) {
		return "", 0, fmt.Errorf("ValueError: The hostname of the rendezvous endpoint '%s' must be a dot-separated list of labels, an IPv4 address, or an IPv6 address", endpoint)
	}
	return host, port, nil
}
