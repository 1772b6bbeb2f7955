// SPDX-License-Identifier: Apache-2.0

package facts

// What follows can only be known by trying it: nodes that call each other. The
// sections are there only where a drill ran, and nothing in them is compared
// across nodes.

// FullMesh is up to how many nodes everybody calls everybody in the mesh drill,
// and nothing less proves anything; of larger fleets it takes samples.
const FullMesh = 128

// SampledPeers is how many others each node of a larger fleet calls.
const SampledPeers = 7

// SampledNames is how many names of the hostfile each node of a larger fleet looks up, and by how many nodes
// each is looked up; the first name and the neighbours' come besides. Where the nodes of a launch
// start each other, it is more.
const SampledNames = 32

// Mesh is one node's part in the mesh drill: what it listened on for the
// others, and what came of calling them.
type Mesh struct {
	// Interface and Address are where it listened and called from: those that
	// the ranks will use in section mesh, those that lead to the peers in
	// section peer_mesh.
	Interface string `json:"interface" fact:"own"`
	Address   string `json:"address" fact:"own"`
	// Ports it listened on, one in each third of the ephemeral range.
	Ports []int `json:"ports" fact:"volatile"`
	// Error is why it did not listen, "" when it did. Nobody called it then.
	Error string `json:"error,omitempty" fact:"own"`
	// Reached is every node that answered as it should on the first port
	// tried, itself among them: from the call to the answer, in seconds.
	Reached map[string]float64 `json:"reached" fact:"volatile" unit:"s"`
	// Failed is every other node that was called.
	Failed []Path `json:"failed,omitempty" fact:"own"`
	// MSS is the smallest maximum segment of its connections to others, in
	// bytes; 0 when there was none.
	MSS int `json:"mss,omitempty" fact:"volatile" unit:"bytes"`
	// Overflows is how often there was no room for a neighbour in the kernel's table while it
	// called, which is when it was called.
	Overflows int64 `json:"overflows,omitempty" fact:"volatile"`
	// Counters are those of Net once its calls had ended.
	Counters map[string]int64 `json:"counters,omitempty" fact:"volatile"`
}

// PathOutcome is what became of a call that failed.
type PathOutcome string

const (
	PathDropped     PathOutcome = "dropped"     // no answer to the connection request within the time
	PathRefused     PathOutcome = "refused"     // answered by a reset, although somebody listened
	PathRejected    PathOutcome = "rejected"    // answered by "host unreachable" or "prohibited", as routers and firewalls do
	PathUnroutable  PathOutcome = "unroutable"  // the caller itself has no route there
	PathUnresolved  PathOutcome = "unresolved"  // nobody on the link answered for the address, or for the router's: no ARP, no neighbour discovery
	PathOverflow    PathOutcome = "overflow"    // the caller's own table of neighbours had no room for the peer
	PathReset       PathOutcome = "reset"       // connected, then reset
	PathSilent      PathOutcome = "silent"      // connected, and nobody answered
	PathStranger    PathOutcome = "stranger"    // connected, and somebody else answered
	PathMisdirected PathOutcome = "misdirected" // connected, and another node of the fleet answered
	PathBlackhole   PathOutcome = "blackhole"   // small messages pass, full packets do not
	PathBroken      PathOutcome = "broken"      // the caller could not even try; Error says why
	PathUntried     PathOutcome = "untried"     // there was no time to call, or to hear what came of it; Error says why
	PathTaken       PathOutcome = "taken"       // another preflight listens on the port, of which no call was made
)

// Path is one call from this node to a peer that failed.
type Path struct {
	Peer    string      `json:"peer"`
	To      string      `json:"to"` // the address called
	Port    int         `json:"port"`
	Outcome PathOutcome `json:"outcome"`
	// Seconds from the call to the outcome.
	Seconds float64 `json:"seconds" unit:"s"`
	Error   string  `json:"error,omitempty"` // in the system's words
	// Answered is the node that answered instead (misdirected).
	Answered string `json:"answered,omitempty"`
	// MAC is what the caller's neighbour table has of the address, "" where it has nothing,
	// and MACShared whether it has the same of another peer's, as where a router answers for
	// both.
	MAC       string `json:"mac,omitempty"`
	MACShared bool   `json:"mac_shared,omitempty"`
	// Gateway is the router that does not answer for its address, "" where it is the peer
	// itself (unresolved).
	Gateway string `json:"gateway,omitempty"`
	// Open and Shut are the peer's other ports that were then tried; Control is
	// whether its ssh port takes connections, nil when it was not tried.
	Open    []int `json:"open,omitempty"`
	Shut    []int `json:"shut,omitempty"`
	Control *bool `json:"control,omitempty"`
	// MSS is the connection's maximum segment in bytes and Stuck the direction
	// in which full packets vanish: "to" the peer or "from" it (blackhole).
	MSS   int    `json:"mss,omitempty" unit:"bytes"`
	Stuck string `json:"stuck,omitempty"`
}

// RailCallers is up to how many nodes all call each other by every rail; of more, each calls
// SampledPeers.
const RailCallers = 64

// Rails is one node's part in the drill of the rails: the addresses, besides the one that all ranks
// listen on, by which NCCL carries data. Each is called by its like on the other nodes.
type Rails struct {
	Rails []Rail `json:"rails" fact:"key=name"`
}

// Rail is one way of several between the nodes.
type Rail struct {
	Name string `json:"name"` // as NCCL has it: the port "mlx5_0:1", or where it talks by sockets the interface
	// Layer is RoCE or InfiniBand, of which the address is IP over InfiniBand's, "" for sockets. Those of an
	// adapter are called by its own interface alone, and heard there alone.
	Layer string `json:"layer,omitempty"`
	// Same are the calls to the peers' addresses on the same rail.
	Same Mesh `json:"same"`
	// Across are the calls from this rail to another one of each peer, nil where there is none.
	Across *Mesh `json:"across,omitempty"`
}

// Generation is a class of torch releases whose TCPStore protocol is the same.
type Generation string

// The generations (pytorch/pytorch, torch/csrc/distributed/c10d/TCPStoreBackend.cpp).
const (
	GenerationLegacy    Generation = "2.0 or older" // query types from 0, no greeting
	GenerationValidates Generation = "2.1 to 2.4"   // the first request is VALIDATE
	GenerationPings     Generation = "2.5 or newer" // then PING
)

// Hop is a step on the way into a rendezvous.
type Hop string

const (
	HopServe    Hop = "serve"    // bind the port and serve the store
	HopResolve  Hop = "resolve"  // look the endpoint's name up
	HopConnect  Hop = "connect"  // reach it
	HopValidate Hop = "validate" // find a store there
	HopJoin     Hop = "join"     // be counted
	HopWait     Hop = "wait"     // see the whole world join
)

// Rendezvous is one node's part in the rendezvous drill.
type Rendezvous struct {
	// Endpoint is host:port as the ranks will be told.
	Endpoint string `json:"endpoint"`
	// Serves is whether this node holds itself for the host of the store, and
	// ServesWhy by which rule.
	Serves    bool   `json:"serves" fact:"own"`
	ServesWhy string `json:"serves_why,omitempty" fact:"own"`
	// Waited is for how long another preflight had the port, in seconds, on the
	// node that serves.
	Waited float64 `json:"waited,omitempty" fact:"volatile" unit:"s"`
	// Generation is the protocol that was spoken.
	Generation Generation `json:"generation"`
	// Addresses are what the endpoint's host is here, in the order tried, and
	// Address the one connected to, by Interface.
	Addresses []string `json:"addresses,omitempty" fact:"own"`
	Address   string   `json:"address,omitempty" fact:"own"`
	Interface string   `json:"interface,omitempty" fact:"own"`
	// Joined is when it was counted and Complete when it saw the whole world,
	// in seconds since it was told to join; 0 when that never came.
	Joined   float64 `json:"joined,omitempty" fact:"volatile" unit:"s"`
	Complete float64 `json:"complete,omitempty" fact:"volatile" unit:"s"`
	// Failed is the hop it did not get past, "" when it saw the whole world;
	// Outcome says how for connect, and for serve where that is known; Error in
	// the system's words.
	Failed  Hop         `json:"failed,omitempty" fact:"own"`
	Outcome PathOutcome `json:"outcome,omitempty" fact:"own"`
	Error   string      `json:"error,omitempty" fact:"own"`
	// Missing are, on the node that serves, those that were never counted.
	Missing []string `json:"missing,omitempty" fact:"own"`
	// Ranks are, on the node that serves, the addresses from which ranks of a real launch
	// called its store meanwhile.
	Ranks []string `json:"ranks,omitempty" fact:"own"`
	// Next is the second meeting of torchrun's c10d mode, at the address that
	// group rank 0 publishes: its own name and a new port. nil in other modes.
	Next *Rendezvous `json:"next,omitempty" fact:"own"`
}

// Logins is what this node's own ssh said of logging in to its peers.
type Logins struct {
	Passed []string `json:"passed" fact:"own"`
	Failed []Login  `json:"failed,omitempty" fact:"own"`
	// Untried are the peers of whom the time left nothing to be known.
	Untried []string `json:"untried,omitempty" fact:"own"`
	// Error is why ssh could not be tried at all ("ssh is not installed").
	Error string `json:"error,omitempty"`
}

// Login is one login that failed.
type Login struct {
	Peer string `json:"peer"`
	// Cause is one of name, connect, timeout, host-key, denied, shell, other.
	Cause   string  `json:"cause"`
	Message string  `json:"message"` // the last line ssh printed
	Seconds float64 `json:"seconds" unit:"s"`
}

// CallBack is this node's calling the launching machine, as what an MPI launcher starts on it
// does before anything else.
type CallBack struct {
	// Name is what it looked up for that, "" where the launcher hands out addresses.
	Name string `json:"name,omitempty"`
	// Reached are the addresses at which the launching machine answered, and Failed what
	// became of the calls to the others, in the order in which they are tried.
	Reached []string `json:"reached" fact:"own"`
	Failed  []Path   `json:"failed,omitempty" fact:"own"`
	// Error is why it called nobody, as that the name does not resolve.
	Error string `json:"error,omitempty" fact:"own"`
}

// The hops on the way to the Hub of Hugging Face, besides those to an endpoint.
const (
	HopProxy     Hop = "proxy"     // have the proxy connect
	HopStore     Hop = "store"     // read the certificates that are trusted
	HopHandshake Hop = "handshake" // agree on TLS
	HopTrust     Hop = "trust"     // find the certificate signed by one that is trusted
)

// Hub is how far this node gets to the Hub of Hugging Face, as the launch's own interpreter goes:
// up to the handshake of TLS, with nothing asked.
type Hub struct {
	// Unneeded is why it was not called from here, "" when it was.
	Unneeded string `json:"unneeded,omitempty" fact:"own"`
	Endpoint string `json:"endpoint"` // https://huggingface.co, or what HF_ENDPOINT says
	// Client is by what huggingface_hub goes there: requests, or since its 1.0 httpx. They read
	// other variables.
	Client string `json:"client"`
	// Proxy is host:port of the proxy that it goes through, "" for none.
	Proxy string `json:"proxy"`
	// Address is where the connection was made to, or was not.
	Address string `json:"address,omitempty" fact:"own"`
	// Store is the file or directory of the certificates that are trusted, "" where it did not come to that.
	Store string `json:"store,omitempty"`
	// Failed is the hop that it did not get past, "" for none; Outcome says how for connect, and Error
	// in the words of the system, of the proxy or of OpenSSL.
	Failed  Hop         `json:"failed,omitempty" fact:"own"`
	Outcome PathOutcome `json:"outcome,omitempty" fact:"own"`
	Error   string      `json:"error,omitempty" fact:"own"`
	Seconds float64     `json:"seconds,omitempty" fact:"volatile" unit:"s"`
}

// Throughput is what this node could send to its neighbour in the ring while
// all others did the same.
type Throughput struct {
	Peer      string  `json:"peer" fact:"own"`
	Interface string  `json:"interface" fact:"own"`
	Rate      float64 `json:"rate" fact:"volatile" unit:"bit/s"` // of payload that arrived
	Seconds   float64 `json:"seconds" fact:"volatile" unit:"s"`
	Error     string  `json:"error,omitempty" fact:"own"`
	// Shared is whether another preflight sent from this node at the same time.
	Shared bool `json:"shared,omitempty" fact:"volatile"`
}

// Endpoint is what one machine finds at a host:port where a store should be.
type Endpoint struct {
	Endpoint  string   `json:"endpoint"`
	Addresses []string `json:"addresses"` // what the host resolves to here
	Address   string   `json:"address,omitempty"`
	Interface string   `json:"interface,omitempty"` // by which it was called
	Source    string   `json:"source,omitempty"`    // the own address it was called from
	// Failed is the hop that failed, "" when a store answered.
	Failed  Hop         `json:"failed,omitempty"`
	Outcome PathOutcome `json:"outcome,omitempty"`
	Error   string      `json:"error,omitempty"`
	Seconds float64     `json:"seconds" unit:"s"`
	// Store is the generation of the store that answered, "" when none did.
	Store Generation `json:"store,omitempty"`
	// Keys is how many keys the store holds.
	Keys int64 `json:"keys,omitempty"`
	// Preflight is whether the store is that of another preflight, which did not leave the
	// port in time, and Waited for how long one was waited for.
	Preflight bool    `json:"preflight,omitempty"`
	Waited    float64 `json:"waited,omitempty" unit:"s"`
	// Greeting is the first line of whoever spoke first, escaped: an ssh
	// server, for one.
	Greeting string `json:"greeting,omitempty"`
	// Gathering is what the launchers of a run have agreed on there, nil where no run is known
	// or the store has nothing of it.
	Gathering *Gathering `json:"gathering,omitempty"`
	// Roll is who has come there by torch's own count, nil where it has none.
	Roll *Roll `json:"roll,omitempty"`
}
