// SPDX-License-Identifier: Apache-2.0

package facts

// The sections in this file are known only from a drill, in which the nodes call each other or
// another machine. A section is present only if its drill ran, and nothing in it is compared across
// nodes.

// FullMesh is the largest number of nodes for which every node calls every other in the mesh drill.
// Only that covers every pair; in larger fleets each node calls a sample.
const FullMesh = 128

// SampledPeers is how many other nodes each node of a larger fleet calls.
const SampledPeers = 7

// SampledNames is how many names of the hostfile each node of a larger fleet looks up, and how many
// nodes look up each name. The first name and the names of the two neighbours come on top. In
// launches whose nodes start each other the number is higher.
const SampledNames = 32

// Mesh is one node's part in the mesh drill: where it listened for the others, and how its calls to
// them ended.
type Mesh struct {
	// Interface and Address are where the node listened and called from. In section mesh they are
	// those that the ranks will use, in section peer_mesh those that lead to the peers.
	Interface string `json:"interface" fact:"own"`
	Address   string `json:"address" fact:"own"`
	// Ports are the ports it listened on, one in each third of the ephemeral range.
	Ports []int `json:"ports" fact:"volatile"`
	// Error is why the node did not listen, "" if it did. A node that does not listen is not
	// called.
	Error string `json:"error,omitempty" fact:"own"`
	// Reached maps every node that answered correctly on the first port tried, this node included,
	// to the seconds from call to answer.
	Reached map[string]float64 `json:"reached" fact:"volatile" unit:"s"`
	// Failed lists every other node that was called.
	Failed []Path `json:"failed,omitempty" fact:"own"`
	// MSS is the smallest maximum segment size of its connections to other nodes, in bytes; 0 if it
	// had no connection.
	MSS int `json:"mss,omitempty" fact:"volatile" unit:"bytes"`
	// Overflows is how often the kernel's neighbour table was full while this node made its calls.
	// It is called by the others at the same time.
	Overflows int64 `json:"overflows,omitempty" fact:"volatile"`
	// Counters are the counters of Net, read after the calls had ended.
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
	PathOverflow    PathOutcome = "overflow"    // the caller's neighbour table was full
	PathReset       PathOutcome = "reset"       // connected, then reset
	PathSilent      PathOutcome = "silent"      // connected, but no answer
	PathStranger    PathOutcome = "stranger"    // connected, but another program answered
	PathMisdirected PathOutcome = "misdirected" // connected, but another node of the fleet answered
	PathBlackhole   PathOutcome = "blackhole"   // small messages pass, full-size packets do not
	PathBroken      PathOutcome = "broken"      // the caller could not even try; Error has the reason
	PathUntried     PathOutcome = "untried"     // no time was left to call or to wait for the result; Error has the reason
	PathTaken       PathOutcome = "taken"       // another preflight listens on the port, so nothing was proven
)

// Path is one call from this node to a peer that failed.
type Path struct {
	Peer    string      `json:"peer"`
	To      string      `json:"to"` // the address called
	Port    int         `json:"port"`
	Outcome PathOutcome `json:"outcome"`
	// Seconds from the call to the outcome.
	Seconds float64 `json:"seconds" unit:"s"`
	Error   string  `json:"error,omitempty"` // in the operating system's words
	// Answered is the node that answered instead, if Outcome is misdirected.
	Answered string `json:"answered,omitempty"`
	// MAC is the address's entry in the caller's neighbour table, "" if it has none. MACShared is
	// set if another peer's entry has the same MAC, for example because a router answers for both.
	MAC       string `json:"mac,omitempty"`
	MACShared bool   `json:"mac_shared,omitempty"`
	// Gateway is the router that did not answer for its own address, "" if it was the peer itself.
	// It is set only if Outcome is unresolved.
	Gateway string `json:"gateway,omitempty"`
	// Open and Shut are the peer's other ports that were tried afterwards. Control says whether its
	// ssh port accepts connections; nil if it was not tried.
	Open    []int `json:"open,omitempty"`
	Shut    []int `json:"shut,omitempty"`
	Control *bool `json:"control,omitempty"`
	// MSS is the connection's maximum segment size in bytes. Stuck is the direction in which
	// full-size packets are lost: "to" the peer or "from" it. Both are set only if Outcome is
	// blackhole.
	MSS   int    `json:"mss,omitempty" unit:"bytes"`
	Stuck string `json:"stuck,omitempty"`
}

// RailCallers is the largest number of nodes that all call each other on every rail. In larger
// fleets each node calls SampledPeers.
const RailCallers = 64

// Rails is one node's part in the rail drill. Rails are the addresses over which NCCL carries data,
// apart from the one on which all ranks listen. Each rail calls its counterpart on the other nodes.
type Rails struct {
	Rails []Rail `json:"rails" fact:"key=name"`
}

// Rail is one of several network paths between the nodes.
type Rail struct {
	Name string `json:"name"` // as NCCL names it: the port "mlx5_0:1", or the interface if NCCL uses sockets
	// Layer is "RoCE" or "InfiniBand", or "" for sockets. For InfiniBand the address is that of IP
	// over InfiniBand. An adapter's rails call only from its own interface and accept calls only
	// there.
	Layer string `json:"layer,omitempty"`
	// Same has the calls to the peers' addresses on the same rail.
	Same Mesh `json:"same"`
	// Across has the calls from this rail to another rail of each peer, nil if there is none.
	Across *Mesh `json:"across,omitempty"`
}

// Generation is a class of torch releases whose TCPStore protocol is the same.
type Generation string

// The generations (pytorch/pytorch, torch/csrc/distributed/c10d/TCPStoreBackend.cpp).
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
	HopConnect  Hop = "connect"  // connect to it
	HopValidate Hop = "validate" // confirm that a store answers
	HopJoin     Hop = "join"     // be counted as a member
	HopWait     Hop = "wait"     // see all nodes join
)

// Rendezvous is one node's part in the rendezvous drill.
type Rendezvous struct {
	// Endpoint is host:port as the ranks will get it.
	Endpoint string `json:"endpoint"`
	// Serves says whether this node considers itself the host of the store, and ServesWhy names the
	// rule.
	Serves    bool   `json:"serves" fact:"own"`
	ServesWhy string `json:"serves_why,omitempty" fact:"own"`
	// Waited is how many seconds the serving node waited for another preflight to free the port.
	Waited float64 `json:"waited,omitempty" fact:"volatile" unit:"s"`
	// Generation is the protocol that the nodes used.
	Generation Generation `json:"generation"`
	// Addresses are what the endpoint's host resolves to on this node, in the order tried. Address
	// is the one it connected to, through Interface.
	Addresses []string `json:"addresses,omitempty" fact:"own"`
	Address   string   `json:"address,omitempty" fact:"own"`
	Interface string   `json:"interface,omitempty" fact:"own"`
	// Joined is when this node was counted and Complete when it saw all nodes, in seconds since it
	// was asked to join; 0 if it never happened.
	Joined   float64 `json:"joined,omitempty" fact:"volatile" unit:"s"`
	Complete float64 `json:"complete,omitempty" fact:"volatile" unit:"s"`
	// Failed is the hop at which this node stopped, "" if it saw all nodes join. Outcome says how a
	// connect failed, and a serve if known. Error is the operating system's message.
	Failed  Hop         `json:"failed,omitempty" fact:"own"`
	Outcome PathOutcome `json:"outcome,omitempty" fact:"own"`
	Error   string      `json:"error,omitempty" fact:"own"`
	// Missing are the nodes that were never counted. Only the node that serves sets it.
	Missing []string `json:"missing,omitempty" fact:"own"`
	// Ranks are the addresses from which ranks of a real launch called the store during the drill.
	// Only the node that serves sets it.
	Ranks []string `json:"ranks,omitempty" fact:"own"`
	// Next is the second rendezvous of torchrun's c10d mode. It takes place at the address that
	// group rank 0 publishes: its own name and a new port. nil in other modes.
	Next *Rendezvous `json:"next,omitempty" fact:"own"`
}

// Logins has the results of logging in to the node's peers with its own ssh.
type Logins struct {
	Passed []string `json:"passed" fact:"own"`
	Failed []Login  `json:"failed,omitempty" fact:"own"`
	// Untried are the peers for which no time was left.
	Untried []string `json:"untried,omitempty" fact:"own"`
	// Error is why ssh could not be tried at all ("ssh is not installed").
	Error string `json:"error,omitempty"`
}

// Login is one failed login.
type Login struct {
	Peer string `json:"peer"`
	// Cause is one of name, connect, timeout, host-key, denied, shell, other.
	Cause   string  `json:"cause"`
	Message string  `json:"message"` // the last line ssh printed
	Seconds float64 `json:"seconds" unit:"s"`
}

// CallBack is a node's call to the launching machine. The program that an MPI launcher starts on a
// node makes the same call before anything else.
type CallBack struct {
	// Name is the name that the node looked up for it, "" if the launcher passes addresses.
	Name string `json:"name,omitempty"`
	// Reached are the addresses at which the launching machine answered. Failed has the calls to
	// its other addresses, in the order tried.
	Reached []string `json:"reached" fact:"own"`
	Failed  []Path   `json:"failed,omitempty" fact:"own"`
	// Error is why the node called no address, for example because the name does not resolve.
	Error string `json:"error,omitempty" fact:"own"`
}

// These hops lead to the Hugging Face Hub, in addition to those that lead to an endpoint.
const (
	HopProxy     Hop = "proxy"     // the proxy opens the connection
	HopStore     Hop = "store"     // read the trusted certificates
	HopHandshake Hop = "handshake" // complete the TLS handshake
	HopTrust     Hop = "trust"     // find the server's certificate signed by a trusted one
)

// Hub is how far this node gets towards the Hugging Face Hub with the launch's own interpreter. The
// drill stops after the TLS handshake and sends no request.
type Hub struct {
	// Unneeded is why this node did not call the Hub, "" if it did.
	Unneeded string `json:"unneeded,omitempty" fact:"own"`
	Endpoint string `json:"endpoint"` // https://huggingface.co, or the value of HF_ENDPOINT
	// Client is the library that huggingface_hub uses: requests, or httpx since its 1.0. The two
	// read different environment variables.
	Client string `json:"client"`
	// Proxy is host:port of the proxy in use, "" for none.
	Proxy string `json:"proxy"`
	// Address is the address that was called, successfully or not.
	Address string `json:"address,omitempty" fact:"own"`
	// Store is the file or directory of trusted certificates, "" if the drill did not get that far.
	Store string `json:"store,omitempty"`
	// Failed is the hop that failed, "" for none. Outcome says how a connect failed. Error is in
	// the words of the operating system, the proxy or OpenSSL.
	Failed  Hop         `json:"failed,omitempty" fact:"own"`
	Outcome PathOutcome `json:"outcome,omitempty" fact:"own"`
	Error   string      `json:"error,omitempty" fact:"own"`
	Seconds float64     `json:"seconds,omitempty" fact:"volatile" unit:"s"`
}

// Throughput is what this node could send to its neighbour in the ring while all other nodes did
// the same.
type Throughput struct {
	Peer      string  `json:"peer" fact:"own"`
	Interface string  `json:"interface" fact:"own"`
	Rate      float64 `json:"rate" fact:"volatile" unit:"bit/s"` // of payload that arrived
	Seconds   float64 `json:"seconds" fact:"volatile" unit:"s"`
	Error     string  `json:"error,omitempty" fact:"own"`
	// Shared reports whether another preflight sent from this node at the same time.
	Shared bool `json:"shared,omitempty" fact:"volatile"`
}

// Endpoint is what one machine finds at a host:port that should be a store.
type Endpoint struct {
	Endpoint  string   `json:"endpoint"`
	Addresses []string `json:"addresses"` // what the host resolves to here
	Address   string   `json:"address,omitempty"`
	Interface string   `json:"interface,omitempty"` // the interface of the call
	Source    string   `json:"source,omitempty"`    // this machine's address in the call
	// Failed is the hop that failed, "" if a store answered.
	Failed  Hop         `json:"failed,omitempty"`
	Outcome PathOutcome `json:"outcome,omitempty"`
	Error   string      `json:"error,omitempty"`
	Seconds float64     `json:"seconds" unit:"s"`
	// Store is the generation of the store that answered, "" if none did.
	Store Generation `json:"store,omitempty"`
	// Keys is how many keys the store holds.
	Keys int64 `json:"keys,omitempty"`
	// Preflight reports whether the store belongs to another preflight that did not leave the port
	// in time. Waited is how long this one waited for it.
	Preflight bool    `json:"preflight,omitempty"`
	Waited    float64 `json:"waited,omitempty" unit:"s"`
	// Greeting is the first line of a server that speaks first, such as an ssh server, escaped.
	Greeting string `json:"greeting,omitempty"`
	// Gathering is what the launchers of a run have agreed on in this store, nil if the run is not
	// known or the store has no such data.
	Gathering *Gathering `json:"gathering,omitempty"`
	// Roll counts who has come to the store according to torch, nil if the store has no such
	// counts.
	Roll *Roll `json:"roll,omitempty"`
}
