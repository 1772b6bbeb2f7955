// SPDX-License-Identifier: Apache-2.0

package facts

// The sections in this file come only from drills, in which the nodes call each other or another
// machine. A section is present only if its drill ran. No fact in these sections is compared across
// nodes.

// FullMesh is the largest number of nodes for which the mesh drill covers every pair, in both
// directions. In larger fleets each node calls a sample of the others.
const FullMesh = 128

// SampledPeers is how many other nodes each node calls in a fleet of more than FullMesh nodes.
const SampledPeers = 7

// SampledNames is how many hostfile names each node looks up in a fleet of more than FullMesh
// nodes. It is also how many nodes look up each name. In addition, each node looks up the first
// name and the names of its two neighbours. In launches whose nodes start each other, the number is
// higher.
const SampledNames = 32

// Mesh is one node's part in the mesh drill. It says where the node listened for the other nodes,
// and how its own calls to them ended.
type Mesh struct {
	// Interface and Address say where the node listened and from where it called. In section mesh
	// they are the ones that the ranks will use. In section peer_mesh they are the ones that lead
	// to the peers.
	Interface string `json:"interface" fact:"own"`
	Address   string `json:"address" fact:"own"`
	// Ports lists the ports on which the node listened, one in each third of the ephemeral range.
	Ports []int `json:"ports" fact:"volatile"`
	// Error says why the node did not listen; it is "" if the node listened. The other nodes do not
	// call a node that does not listen.
	Error string `json:"error,omitempty" fact:"own"`
	// Reached maps every node that answered correctly on the first port tried to the seconds from
	// call to answer. This node itself is included. If the other node calls this one, it is enough
	// that the other node accepts a connection.
	Reached map[string]float64 `json:"reached" fact:"volatile" unit:"s"`
	// Failed holds the failed call to every other node that was called.
	Failed []Path `json:"failed,omitempty" fact:"own"`
	// MSS is the smallest maximum segment size of this node's connections to other nodes, in bytes.
	// It is 0 if the node had no connection.
	MSS int `json:"mss,omitempty" fact:"volatile" unit:"bytes"`
	// Overflows is how often the kernel's neighbour table was full while this node made its calls.
	// The other nodes call this node at the same time.
	Overflows int64 `json:"overflows,omitempty" fact:"volatile"`
	// Counters holds the same counters as Net, read after the calls had ended.
	Counters map[string]int64 `json:"counters,omitempty" fact:"volatile"`
}

// PathOutcome says how a call failed.
type PathOutcome string

const (
	PathDropped     PathOutcome = "dropped"     // no answer to the connection request in time
	PathRefused     PathOutcome = "refused"     // answered by a reset, although the peer listens
	PathRejected    PathOutcome = "rejected"    // answered with "host unreachable" or "prohibited", as routers and firewalls do
	PathUnroutable  PathOutcome = "unroutable"  // the caller has no route to the address
	PathUnresolved  PathOutcome = "unresolved"  // no ARP or neighbour discovery answer for the address, or for the router's address
	PathOverflow    PathOutcome = "overflow"    // full neighbour table on the caller
	PathReset       PathOutcome = "reset"       // connected, then reset
	PathSilent      PathOutcome = "silent"      // connected, but no answer
	PathStranger    PathOutcome = "stranger"    // connected, but another program answered
	PathMisdirected PathOutcome = "misdirected" // connected, but another node of the fleet answered
	PathBlackhole   PathOutcome = "blackhole"   // small messages pass, full-size packets do not
	PathBroken      PathOutcome = "broken"      // the caller could not even try; Error has the reason
	PathUntried     PathOutcome = "untried"     // no time was left to call or to wait for the result; Error has the reason
	PathTaken       PathOutcome = "taken"       // another preflight listens on the port, so the call proves nothing
)

// Path is one failed call from this node to a peer.
type Path struct {
	Peer    string      `json:"peer"`
	To      string      `json:"to"` // the address that was called
	Port    int         `json:"port"`
	Outcome PathOutcome `json:"outcome"`
	// Seconds is the time from the call to the outcome.
	Seconds float64 `json:"seconds" unit:"s"`
	Error   string  `json:"error,omitempty"` // the operating system's message
	// Answered is the node that answered in place of the peer, if Outcome is misdirected.
	Answered string `json:"answered,omitempty"`
	// MAC is the address's entry in the caller's neighbour table, "" if the table has none.
	// MACShared is set if another peer's entry has the same MAC, for example because a router
	// answers for both.
	MAC       string `json:"mac,omitempty"`
	MACShared bool   `json:"mac_shared,omitempty"`
	// Gateway is the router that did not answer for its own address. It is "" if the peer itself
	// did not answer. It is set only if Outcome is unresolved.
	Gateway string `json:"gateway,omitempty"`
	// Open and Shut list the peer's other ports that were tried after the failure, by whether they
	// accept connections. Control says whether the peer's ssh port accepts connections; nil if that
	// port was not tried.
	Open    []int `json:"open,omitempty"`
	Shut    []int `json:"shut,omitempty"`
	Control *bool `json:"control,omitempty"`
	// MSS is the connection's maximum segment size in bytes. Stuck is the direction in which
	// full-size packets are lost: "to" the peer or "from" the peer. Both fields are set only if
	// Outcome is blackhole.
	MSS   int    `json:"mss,omitempty" unit:"bytes"`
	Stuck string `json:"stuck,omitempty"`
}

// RailCallers is the largest number of nodes that all call each other on every rail. In larger
// fleets each node calls SampledPeers other nodes.
const RailCallers = 64

// Rails is one node's part in the rail drill. The rails are the addresses over which NCCL carries
// data, without the address on which all ranks listen. Each rail calls its counterpart on the other
// nodes.
type Rails struct {
	Rails []Rail `json:"rails" fact:"key=name"`
}

// Rail is one of several network paths between the nodes.
type Rail struct {
	Name string `json:"name"` // NCCL's name for the rail: the port "mlx5_0:1", or the interface if NCCL uses sockets
	// Layer is "RoCE" or "InfiniBand", or "" for sockets. For InfiniBand the address is the IP over
	// InfiniBand address. An adapter's rails call only from the adapter's own interface and accept
	// calls only on that interface.
	Layer string `json:"layer,omitempty"`
	// Same holds the calls to the peers' addresses on the same rail.
	Same Mesh `json:"same"`
	// Across holds the calls from this rail to another rail of each peer. It is nil if no peer has
	// another rail.
	Across *Mesh `json:"across,omitempty"`
}

// Generation is a class of torch releases whose TCPStore protocol is the same.
type Generation string

// These are the generations (pytorch/pytorch, torch/csrc/distributed/c10d/TCPStoreBackend.cpp).
const (
	GenerationLegacy    Generation = "2.0 or older" // query types start at 0, no greeting
	GenerationValidates Generation = "2.1 to 2.4"   // the first request is VALIDATE
	GenerationPings     Generation = "2.5 or newer" // VALIDATE, then PING
)

// Hop is one step on the way into a rendezvous.
type Hop string

const (
	HopServe    Hop = "serve"    // bind the port and serve the store
	HopResolve  Hop = "resolve"  // resolve the endpoint's name
	HopConnect  Hop = "connect"  // connect to the endpoint
	HopValidate Hop = "validate" // confirm that a store answers
	HopJoin     Hop = "join"     // be counted as a member
	HopWait     Hop = "wait"     // see all nodes join
)

// Rendezvous is one node's part in the rendezvous drill.
type Rendezvous struct {
	// Endpoint is the rendezvous endpoint, host:port, as the ranks will get it.
	Endpoint string `json:"endpoint"`
	// Serves reports whether this node considers itself the host of the store. ServesWhy names the
	// rule that decided this.
	Serves    bool   `json:"serves" fact:"own"`
	ServesWhy string `json:"serves_why,omitempty" fact:"own"`
	// Waited is how many seconds the serving node waited until another preflight left the port.
	Waited float64 `json:"waited,omitempty" fact:"volatile" unit:"s"`
	// Generation is the generation of the protocol that the nodes used.
	Generation Generation `json:"generation"`
	// Addresses lists what the endpoint's host resolves to on this node, in the order in which they
	// were tried. Address is the one that the node connected to, and Interface the interface it
	// used.
	Addresses []string `json:"addresses,omitempty" fact:"own"`
	Address   string   `json:"address,omitempty" fact:"own"`
	Interface string   `json:"interface,omitempty" fact:"own"`
	// Joined is when the store counted this node, and Complete is when this node saw that all nodes
	// had joined. Both are in seconds since the node was asked to join; 0 means that it never
	// happened.
	Joined   float64 `json:"joined,omitempty" fact:"volatile" unit:"s"`
	Complete float64 `json:"complete,omitempty" fact:"volatile" unit:"s"`
	// Failed is the hop at which this node stopped, "" if it saw all nodes join. Outcome says how a
	// connect failed, and how a serve failed if that is known. Error is the operating system's
	// message.
	Failed  Hop         `json:"failed,omitempty" fact:"own"`
	Outcome PathOutcome `json:"outcome,omitempty" fact:"own"`
	Error   string      `json:"error,omitempty" fact:"own"`
	// Missing lists the nodes that the store never counted. Only the serving node sets it.
	Missing []string `json:"missing,omitempty" fact:"own"`
	// Ranks lists the addresses from which ranks of a real launch called the store during the
	// drill. Only the serving node sets it.
	Ranks []string `json:"ranks,omitempty" fact:"own"`
	// Next is the second rendezvous of torchrun's c10d mode; it is nil in other modes. It takes
	// place at the address that group rank 0 publishes: its own name and a new port.
	Next *Rendezvous `json:"next,omitempty" fact:"own"`
}

// Logins holds the results of logging in to the node's peers with the node's own ssh.
type Logins struct {
	Passed []string `json:"passed" fact:"own"`
	Failed []Login  `json:"failed,omitempty" fact:"own"`
	// Untried lists the peers for which no time was left.
	Untried []string `json:"untried,omitempty" fact:"own"`
	// Error says why the node could not use ssh at all ("ssh is not installed").
	Error string `json:"error,omitempty"`
}

// Login is one failed login.
type Login struct {
	Peer string `json:"peer"`
	// Cause is one of these: name, connect, timeout, host-key, host-key-changed, denied, shell,
	// other.
	Cause   string  `json:"cause"`
	Message string  `json:"message"` // the last line that ssh printed
	Seconds float64 `json:"seconds" unit:"s"`
}

// CallBack is a node's call to the launching machine. The program that an MPI launcher starts on a
// node makes the same call before anything else.
type CallBack struct {
	// Name is the name of the launching machine that the node looked up. It is "" if the launcher
	// passes addresses.
	Name string `json:"name,omitempty"`
	// Reached lists the addresses at which the launching machine answered. Failed holds the calls
	// to its other addresses, in the order in which they were tried.
	Reached []string `json:"reached" fact:"own"`
	Failed  []Path   `json:"failed,omitempty" fact:"own"`
	// Error says why the node called no address, for example because the name does not resolve.
	Error string `json:"error,omitempty" fact:"own"`
}

// These hops lead to the Hugging Face Hub. They come in addition to the hops that lead to an
// endpoint.
const (
	HopProxy     Hop = "proxy"     // the proxy opens the connection
	HopStore     Hop = "store"     // read the trusted certificates
	HopHandshake Hop = "handshake" // complete the TLS handshake
	HopTrust     Hop = "trust"     // find a trusted certificate that signed the server's certificate
)

// Hub says how far this node gets on the way to the Hugging Face Hub with the launch's own
// interpreter. The drill stops after the TLS handshake and sends no request.
type Hub struct {
	// Unneeded says why this node did not call the Hub, "" if the node called it.
	Unneeded string `json:"unneeded,omitempty" fact:"own"`
	Endpoint string `json:"endpoint"` // https://huggingface.co, or the value of HF_ENDPOINT
	// Client is the library that huggingface_hub uses: requests, or httpx since huggingface_hub
	// 1.0. The two libraries read different environment variables.
	Client string `json:"client"`
	// Proxy is the host:port of the proxy in use, "" for none.
	Proxy string `json:"proxy"`
	// Address is the address that the node called, successfully or not.
	Address string `json:"address,omitempty" fact:"own"`
	// Store is the file or directory of trusted certificates. It is "" if the drill stopped before
	// it read them.
	Store string `json:"store,omitempty"`
	// Failed is the hop that failed, "" for none. Outcome says how a connect failed. Error is the
	// message of the operating system, the proxy or OpenSSL.
	Failed  Hop         `json:"failed,omitempty" fact:"own"`
	Outcome PathOutcome `json:"outcome,omitempty" fact:"own"`
	Error   string      `json:"error,omitempty" fact:"own"`
	Seconds float64     `json:"seconds,omitempty" fact:"volatile" unit:"s"`
}

// Throughput is the rate at which this node could send to its neighbour in the ring while all other
// nodes sent to theirs.
type Throughput struct {
	Peer      string  `json:"peer" fact:"own"`
	Interface string  `json:"interface" fact:"own"`
	Rate      float64 `json:"rate" fact:"volatile" unit:"bit/s"` // rate of the payload that arrived
	Seconds   float64 `json:"seconds" fact:"volatile" unit:"s"`
	Error     string  `json:"error,omitempty" fact:"own"`
	// Shared reports whether another preflight sent from this node at the same time.
	Shared bool `json:"shared,omitempty" fact:"volatile"`
}

// Endpoint is what one machine finds at a host:port that should be a store.
type Endpoint struct {
	Endpoint  string   `json:"endpoint"`
	Addresses []string `json:"addresses"` // what the host resolves to on this machine
	Address   string   `json:"address,omitempty"`
	Interface string   `json:"interface,omitempty"` // the interface used for the connection
	Source    string   `json:"source,omitempty"`    // this machine's address in the connection
	// Failed is the hop that failed, "" if a store answered.
	Failed  Hop         `json:"failed,omitempty"`
	Outcome PathOutcome `json:"outcome,omitempty"`
	Error   string      `json:"error,omitempty"`
	Seconds float64     `json:"seconds" unit:"s"`
	// Store is the generation of the store that answered, "" if no store answered.
	Store Generation `json:"store,omitempty"`
	// Keys is the number of keys in the store.
	Keys int64 `json:"keys,omitempty"`
	// Preflight reports whether the store belongs to another preflight that did not leave the port
	// in time. Waited is how long this preflight waited for the other to leave.
	Preflight bool    `json:"preflight,omitempty"`
	Waited    float64 `json:"waited,omitempty" unit:"s"`
	// Greeting is the escaped first line of a server that speaks first, such as an ssh server.
	Greeting string `json:"greeting,omitempty"`
	// Gathering holds what the launchers of a run have agreed on in this store. It is nil if the
	// run is not known or the store has no such data.
	Gathering *Gathering `json:"gathering,omitempty"`
	// Roll holds torch's counts of the processes that have joined the store. It is nil if the store
	// has no such counts.
	Roll *Roll `json:"roll,omitempty"`
}
