// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"net/netip"
	"slices"
	"strings"
)

// Names describes how this node resolves names.
type Names struct {
	// Own is the result of gethostname().
	Own string `json:"own" fact:"own"`
	// FQDN is the canonical name of Own, as getaddrinfo returns it. Published is the name that the
	// node gives to other nodes: the result of Python's socket.getfqdn(), which looks up the
	// address of Own backwards. Both are the answers of the launch's interpreter. They are "" if
	// there is no answer, and if the launch is not a torchrun with c10d.
	FQDN      string `json:"fqdn" fact:"volatile"`
	Published string `json:"published,omitempty" fact:"volatile"`
	// Lookups has one entry for each name: the node's own hostname, the master's name and the names
	// in the hostfile.
	Lookups []Lookup `json:"lookups" fact:"key=name"`
	// Asked is the number of names in the hostfile. If Lookups has fewer entries, the node looked
	// up a sample of the names.
	Asked int `json:"asked" fact:"volatile"`
	// Reverse is the reverse lookup of another node's address, nil if it took less than 2 s. torch
	// before 2.9 makes one for each connection of the rendezvous, also if the last one got no
	// answer (pytorch/pytorch, torch/csrc/distributed/c10d/socket.cpp, #159596).
	Reverse *Lookup `json:"reverse,omitempty" fact:"volatile"`
	// HostsTraps lists the lines of /etc/hosts that map this machine's own name to a loopback
	// address ("127.0.1.1 w3").
	HostsTraps []string `json:"hosts_traps" fact:"own"`
	// Resolver is the value of the hosts line in nsswitch.conf ("files dns").
	Resolver string `json:"resolver"`
	// AddressAnswer is the result of the command that DeepSpeed runs on node 0 before it starts ranks. It
	// is nil on other nodes, and if the launch runs no such command.
	AddressAnswer *AddressAnswer `json:"address_answer,omitempty" fact:"own"`
}

// AddressAnswer is the result of a command that the node's login shell ran, as sshd makes it.
type AddressAnswer struct {
	Command string `json:"command"` // "hostname -I"
	// First is the first word that the command printed, "" if it printed none. It may come from a
	// start-up file of the shell.
	First string `json:"first"`
	// Exit is the exit status. Problem is the complaint of a command that failed, "" if it
	// succeeded.
	Exit    int    `json:"exit"`
	Problem string `json:"problem,omitempty"`
	// Unanswered is set if the command did not end in time. Its result is then not known.
	Unanswered bool `json:"unanswered,omitempty"`
}

// OutOfTime is the error for a name without a result at the end of the run's time: the node did not
// look it up, or got no answer. The error does not mean that the name service has a problem.
const OutOfTime = "not answered before the time of the run was over"

// Lookup is one name as it was requested, including user@. It lists what the name's host resolves
// to on this node, in resolver order.
type Lookup struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses"` // empty if the name does not resolve
	Error     string   `json:"error,omitempty"`
	// Unanswered is set if no answer came in time. The name may still resolve.
	Unanswered bool `json:"unanswered,omitempty"`
	// Seconds is how long the lookup took, 0 if that was less than 2 s. After 3 s, preflight no
	// longer waits for name servers, and takes the addresses in /etc/hosts if getaddrinfo will.
	Seconds float64 `json:"seconds,omitempty" fact:"volatile" unit:"s"`
}

// Net describes the network of one node.
type Net struct {
	Interfaces []Interface `json:"interfaces" fact:"key=name"` // in kernel order (ifindex)
	// Routes lists how packets leave this node for each node whose name resolves on the launching
	// machine, this node included. In a large fleet it covers only the nodes that this node looks
	// up.
	Routes []Route `json:"routes" fact:"own"`
	// Default says how packets to 8.8.8.8 leave this node. Ray, vLLM and SGLang take the source
	// address of this route as the node's own. No packet is sent. nil means that the kernel was not
	// asked.
	Default *Route `json:"default,omitempty" fact:"own"`
	// EphemeralLow and EphemeralHigh are the bounds of net.ipv4.ip_local_port_range.
	EphemeralLow  int `json:"ephemeral_low"`
	EphemeralHigh int `json:"ephemeral_high"`
	// Reserved is the value of net.ipv4.ip_local_reserved_ports.
	Reserved  string     `json:"reserved_ports"`
	Listening []Listener `json:"listening" fact:"volatile"`
	SoMaxConn int        `json:"somaxconn"`
	// TCP maps the names of sysctl settings that change how connections behave to their values.
	TCP  map[string]string `json:"tcp"`
	IPv6 bool              `json:"ipv6"` // the kernel supports IPv6 and it is not disabled
	// Neighbours lists the kernel's tables that map the addresses on the node's links to MACs. It
	// is nil if the kernel does not show the tables.
	Neighbours []NeighbourTable `json:"neighbours" fact:"key=name"`
	// Counters holds the errors that network interfaces, RDMA ports and PCI Express have counted
	// since they came up. Its keys are the place and the kind: "mlx5_0:1 symbol_error", "eth0
	// carrier_changes", "0000:4e:00.0 aer_fatal". Zero counters are left out; nil means that the
	// kernel does not show counters.
	Counters map[string]int64 `json:"counters" fact:"volatile"`
	// Tracked is the number of connections in the kernel's table of connection tracking, 0 if the
	// kernel tracks none.
	Tracked int `json:"tracked,omitempty" fact:"volatile"`
	// Rules lists the rules of iptables that redirect, drop, reject or limit packets, or accept them
	// in INPUT or OUTPUT, each as "nat -A PREROUTING …", with its table. It has at most 64 of them,
	// after "filter -P INPUT DROP" for a chain that drops the rest. It is nil if they cannot be read,
	// which only root can.
	Rules []string `json:"rules" fact:"volatile"`
	// Docker holds the address pools of Docker's networks, nil if Docker's configuration could not
	// be read.
	Docker *Docker `json:"docker"`
}

// Docker holds the network settings of /etc/docker/daemon.json.
type Docker struct {
	Pools []AddressPool `json:"pools" fact:"key=base"` // empty if Docker uses its defaults
}

// AddressPool is a network that Docker divides into subnets of one size.
type AddressPool struct {
	Base string `json:"base"` // such as 172.20.0.0/14
	Size int    `json:"size"` // prefix length of each subnet: 16 for /16
}

// NeighbourTable is one of the kernel's two neighbour tables. All network namespaces of a machine
// share them.
type NeighbourTable struct {
	Name string `json:"name"` // arp_cache for IPv4, ndisc_cache for IPv6
	// GCThresh1 to GCThresh3 are net.ipv4.neigh.default.gc_thresh1 to 3, or the same settings for
	// IPv6. With no more entries than the first threshold, the kernel removes none. Above the
	// second, entries stay for five seconds at most. The third is the maximum number of entries.
	GCThresh1 int `json:"gc_thresh1"`
	GCThresh2 int `json:"gc_thresh2"`
	GCThresh3 int `json:"gc_thresh3"`
	// Entries counts all entries, including entries that the thresholds ignore. Learned counts the
	// entries that the thresholds apply to, in this network namespace, by interface.
	Entries int            `json:"entries" fact:"volatile"`
	Learned map[string]int `json:"learned" fact:"volatile"`
	// Overflows is how often the table had no room for a neighbour since boot. It is nil if the
	// kernel does not count that.
	Overflows *int64 `json:"overflows" fact:"volatile"`
}

// Interface is one network interface.
type Interface struct {
	Name     string `json:"name"`
	Index    int    `json:"index" fact:"own" lasting:"no"`
	Up       bool   `json:"up"`      // the flag IFF_UP is set
	Running  bool   `json:"running"` // IFF_RUNNING: the interface has a carrier
	Loopback bool   `json:"loopback"`
	MTU      int    `json:"mtu"`
	MAC      string `json:"mac" fact:"own"`
	// Kind is one of these: physical, bridge, veth, docker, bond, vlan, tunnel, infiniband,
	// loopback, dummy, wireless, other.
	Kind   string `json:"kind"`
	Driver string `json:"driver"`
	// Speed is the link speed in bits per second, nil if the driver does not report it.
	Speed *int64 `json:"speed" unit:"bit/s"`
	// Addresses lists CIDR prefixes in kernel order, IPv4 before IPv6.
	Addresses []string `json:"addresses" fact:"own"`
	Master    string   `json:"master,omitempty"` // the bridge or bond that the interface belongs to
}

// Route says how packets to one address leave this node.
type Route struct {
	Name      string `json:"name"` // the node's name in the hostfile
	To        string `json:"to"`   // the name's first address on the launching machine
	Interface string `json:"interface,omitempty"`
	Source    string `json:"source,omitempty"`
	Gateway   string `json:"gateway,omitempty"`
	Error     string `json:"error,omitempty"` // "network is unreachable"
}

// Listener is a TCP port on which a process listens.
type Listener struct {
	Address string `json:"address"` // "0.0.0.0", "::", "10.0.0.1"
	Port    int    `json:"port"`
	// PID is the process that listens. preflight determines it only for rendezvous ports (the
	// master's port, 29400 and 29500). It is 0 for other ports and if the process cannot be seen.
	// Command is the beginning of the process's command line.
	PID     int    `json:"pid,omitempty"`
	Command string `json:"command,omitempty"`
	UID     int    `json:"uid"`
	// Preflight reports whether the port belongs to another preflight that is testing the same
	// rendezvous. That preflight leaves the port by itself.
	Preflight bool `json:"preflight,omitempty"`
}

// containerBridges lists the name prefixes of interfaces that container engines and hypervisors
// create.
//
// Source: the defaults of Docker and podman, libvirt, and the CNI plugins bridge, flannel, Calico
// and Cilium.
var containerBridges = []string{"docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "lxc"}

// ForContainers reports whether a container engine created the interface. No launch should use such
// an interface. Its link state, speed and MAC depend on which containers run at the moment.
func (i Interface) ForContainers() bool {
	return slices.ContainsFunc(containerBridges, func(start string) bool { return strings.HasPrefix(i.Name, start) })
}

// Internal reports whether the interface leads only to this machine and to what runs on it. A
// bridge may contain an adapter and lead to other nodes. Callers that know about such an adapter
// should not use Internal.
func (i Interface) Internal() bool {
	return i.Loopback || i.Kind == "bridge" || i.ForContainers() || i.Passing()
}

// Passing reports whether the interface is the outer end of a container's veth pair. The outer end
// comes and goes with the container and has a random name. It is part of a bridge, or has no
// address that a peer could call. The inner end, a container's eth0, has such an address.
func (i Interface) Passing() bool {
	return i.Kind == "veth" && (i.Master != "" || !slices.ContainsFunc(i.Addresses, callable))
}

// callable reports whether a prefix in Interface.Addresses has a wider scope than its link.
func callable(address string) bool {
	prefix, err := netip.ParsePrefix(address)
	return err == nil && !prefix.Addr().IsLinkLocalUnicast()
}

// IPv4 returns the interface's IPv4 addresses as CIDR prefixes.
func (i Interface) IPv4() (addresses []string) {
	for _, address := range i.Addresses {
		if prefix, err := netip.ParsePrefix(address); err == nil && prefix.Addr().Is4() {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// IB describes the InfiniBand and RoCE adapters as sysfs reports them. An empty list of devices
// means that this node has none.
type IB struct {
	Devices []HCA `json:"devices" fact:"key=name"`
	// Verbs lists the /dev/infiniband/uverbs* devices that this session sees.
	Verbs []string `json:"verbs"`
	// Peermem reports whether nvidia_peermem or nv_peer_mem can register GPU memory.
	Peermem bool `json:"peermem"`
	// Libraries lists the RDMA libraries that were found: libibverbs.so.1, libmlx5.so.1, and every
	// libnccl-net*.so and libnccl-tuner*.so in the loader's path.
	Libraries []RDMALibrary `json:"libraries" fact:"key=name"`
	// Refused lists the devices in Verbs that could not be opened, by path, with the error.
	Refused []DeviceNode `json:"refused,omitempty" fact:"key=path"`
}

// RDMALibrary is a library with its soname and the path where the loader finds it.
type RDMALibrary struct {
	Name string `json:"name"` // "libibverbs.so.1"
	Path string `json:"path" fact:"own"`
}

// HCA is one RDMA device.
type HCA struct {
	Name     string `json:"name"`
	Type     string `json:"type"` // "MT4129"
	Firmware string `json:"firmware"`
	Board    string `json:"board"`
	GUID     string `json:"guid" fact:"own"`
	NUMANode int    `json:"numa_node"` // -1 if the kernel does not report it
	// Kind is the kernel's name for the device's transport. It is CA for InfiniBand and RoCE, RNIC
	// for iWARP, and another name for a vendor's own transport. "" means that the kernel does not
	// report it.
	Kind   string `json:"kind,omitempty"`
	Driver string `json:"driver,omitempty"` // driver of the PCI device: mlx5_core, irdma, efa; "" for a software device
	// Verbs is the adapter's device node, "/dev/infiniband/uverbs0", or "" if the kernel does not
	// report it. IB.Verbs and IB.Refused say whether this session can use the device node.
	Verbs string `json:"verbs,omitempty" fact:"own"`
	// Path lists the addresses on the way from the root complex, like PCIGPU.Path. It is nil for a
	// device that is not on a PCI bus.
	Path []string `json:"path" fact:"own"`
	// PCIe is the adapter's current link speed and width. MaxPCIe is the best link that the adapter
	// and the slot support: "16.0 GT/s PCIe x16".
	PCIe    string   `json:"pcie,omitempty"`
	MaxPCIe string   `json:"max_pcie,omitempty"`
	Ports   []IBPort `json:"ports" fact:"key=port"`
}

// IBPort is one port of an RDMA device.
type IBPort struct {
	Port      int      `json:"port"`
	State     string   `json:"state"`             // ACTIVE, DOWN, INIT, ARMED
	Physical  string   `json:"physical"`          // LinkUp, Polling, Disabled
	LinkLayer string   `json:"link_layer"`        // InfiniBand, Ethernet
	Rate      int64    `json:"rate" unit:"bit/s"` // bits per second
	Width     string   `json:"width"`             // "4X"
	LID       int      `json:"lid" fact:"own"`
	SMLID     int      `json:"sm_lid"` // 0 for RoCE, and before a subnet manager has configured the port
	NetDev    string   `json:"netdev"` // the port's network interface, "" for none
	GIDs      []GID    `json:"gids" fact:"own"`
	PKeys     []string `json:"pkeys"` // "0xffff", without empty slots
	// QoS describes how the interface of a RoCE port sorts incoming packets, and for which packets
	// it pauses the sender. It is nil if the kernel does not report it.
	QoS *QoS `json:"qos"`
	// PKeySlots lists the positions of PKeys in the table. It is nil if no slot before them is
	// empty.
	PKeySlots []int `json:"pkey_slots,omitempty"`
}

// QoS describes how an interface treats packets by their priority, 0 to 7.
type QoS struct {
	// Trust is the field from which the interface reads a packet's priority: the DSCP, or the VLAN
	// tag (pcp).
	Trust string `json:"trust"`
	// Pauses lists the priorities for which the interface makes the sender wait when its buffer is
	// full (PFC). If the buffer is full, the interface drops packets of other priorities.
	Pauses []int `json:"pauses"`
	// Priorities maps each DSCP code point that was configured to its priority.
	Priorities map[string]int `json:"priorities"`
}

// These are the values of QoS.Trust.
const (
	TrustDSCP = "dscp"
	TrustPCP  = "pcp"
)

// GID is one entry of a port's GID table.
type GID struct {
	Index int    `json:"index"`
	GID   string `json:"gid"`
	Type  string `json:"type"` // "IB/RoCE v1", "RoCE v2"
}

// SSH says how far the login got, and what preflight met on the way to the node. The launching
// machine fills it in. Cause is empty if the agent answered.
type SSH struct {
	// Carrier is the program over which preflight reached the node if not over ssh: srun, mpirun,
	// kubectl or meet.
	Carrier string `json:"carrier,omitempty"`
	// Options lists the options that preflight passed to that program.
	Options []string `json:"options,omitempty"`

	// Inside is the command that enters the ranks' container, such as docker, exec, -i, train.
	// preflight appends the agent's command to it. Inside is empty if the agent runs on the node
	// itself. If it is not empty, all other facts describe the inside of the container, while the
	// facts of the login describe the node.
	Inside []string `json:"inside,omitempty" fact:"own"`

	User string `json:"user,omitempty" fact:"own"`
	Port int    `json:"port,omitempty"`
	// Via lists the jump hosts in the order in which the connection passes them.
	Via []string `json:"via,omitempty"`

	// Stage is the step that failed. The steps are resolve, connect, greet, negotiate, host-key,
	// login, session, shell, inside, deliver, start and talk.
	Stage string `json:"stage,omitempty" fact:"own"`
	// Cause is the failure in one word (remote.Cause), "" on success.
	Cause string `json:"cause,omitempty" fact:"own"`
	// Message is the error message of the program that reported the failure.
	Message string `json:"message,omitempty" fact:"own"`
	// Detail holds what a fix needs: file names, fingerprints, the keys that were offered.
	Detail map[string]string `json:"detail,omitempty" fact:"own"`
	// OpenSSH lists how the system's ssh, which the launch uses, would have behaved differently
	// from preflight's own.
	OpenSSH []string `json:"openssh,omitempty" fact:"own"`

	Banner string `json:"banner,omitempty" fact:"own"` // the server's version string
	// Noise is what the login printed on stdout before the agent's first message, escaped and
	// shortened. Programs that parse the output of a remote command read the same text.
	Noise []string `json:"noise,omitempty"`

	ConnectSeconds float64 `json:"connect_seconds,omitempty" fact:"volatile" unit:"s"` // from dial to login
	StartSeconds   float64 `json:"start_seconds,omitempty" fact:"volatile" unit:"s"`   // from login to the agent's first message
	Delivered      bool    `json:"delivered,omitempty" fact:"volatile"`                // this run copied the agent to the node
	// Distrusted names the cached agent and the reason why preflight did not run it. preflight
	// delivered a new copy.
	Distrusted string `json:"distrusted,omitempty" fact:"volatile"`
	// Uncalled says why the node's agent, which a shared srun started, could not call the launching
	// machine. The node's agent was then started with a separate srun.
	Uncalled string `json:"uncalled,omitempty" fact:"volatile"`
	Path     string `json:"path,omitempty" fact:"own" lasting:"no"` // path of the agent on the node
}
