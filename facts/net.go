// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"net/netip"
	"slices"
	"strings"
)

// Names is how this node resolves names.
type Names struct {
	// Own is gethostname() and FQDN its canonical name.
	Own  string `json:"own" fact:"own"`
	FQDN string `json:"fqdn" fact:"own"`
	// Lookups holds one entry a name asked for: the node's own hostname, the
	// master's name and the hostfile's names.
	Lookups []Lookup `json:"lookups" fact:"key=name"`
	// Asked is how many hostfile names there are; fewer Lookups means that a
	// sample was taken.
	Asked int `json:"asked" fact:"volatile"`
	// HostsTraps are lines of /etc/hosts that give this machine's own name a
	// loopback address ("127.0.1.1 w3").
	HostsTraps []string `json:"hosts_traps" fact:"own"`
	// Resolver is the hosts line of nsswitch.conf ("files dns").
	Resolver string `json:"resolver"`
}

// OutOfTime is the error of a name whose turn to be asked for, or whose answer, the time of the
// whole run did not last to: nothing is wrong with the name service for all that is known.
const OutOfTime = "not answered before the time of the run was over"

// Lookup is one name as it was asked for, a user@ included, and what the host
// resolves to here, in the order given.
type Lookup struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses"` // empty when it does not resolve
	Error     string   `json:"error,omitempty"`
	// Unanswered is set when nobody answered in time: the name may well resolve.
	Unanswered bool `json:"unanswered,omitempty"`
}

// Net is the network of one node.
type Net struct {
	Interfaces []Interface `json:"interfaces" fact:"key=name"` // in kernel order (ifindex)
	// Routes says how packets leave to each node, this one included, whose name
	// resolves on the launching machine; in a large fleet to those that it looks up.
	Routes []Route `json:"routes" fact:"own"`
	// EphemeralLow and EphemeralHigh bound net.ipv4.ip_local_port_range.
	EphemeralLow  int `json:"ephemeral_low"`
	EphemeralHigh int `json:"ephemeral_high"`
	// Reserved is net.ipv4.ip_local_reserved_ports.
	Reserved  string     `json:"reserved_ports"`
	Listening []Listener `json:"listening" fact:"volatile"`
	SoMaxConn int        `json:"somaxconn"`
	// TCP are the settings that change how connections behave, by sysctl name.
	TCP  map[string]string `json:"tcp"`
	IPv6 bool              `json:"ipv6"` // the kernel has it and it is not disabled
	// Neighbours are the kernel's tables of who is at which address of its links, nil where it
	// does not tell.
	Neighbours []NeighbourTable `json:"neighbours" fact:"key=name"`
	// Counters are the errors that network interfaces, RDMA ports and PCI Express have counted
	// since they came up, by where and what: "mlx5_0:1 symbol_error", "eth0 carrier_changes",
	// "0000:4e:00.0 aer_fatal". Those at zero are left out; nil where the kernel does not tell.
	Counters map[string]int64 `json:"counters" fact:"volatile"`
	// Docker is where it takes the subnets of its networks from, nil where its configuration
	// could not be read.
	Docker *Docker `json:"docker"`
}

// Docker is what /etc/docker/daemon.json says of networks.
type Docker struct {
	Pools []AddressPool `json:"pools" fact:"key=base"` // none where Docker is left its own
}

// AddressPool is a network that subnets of one size are cut out of.
type AddressPool struct {
	Base string `json:"base"` // 172.20.0.0/14
	Size int    `json:"size"` // 16 for subnets of /16
}

// NeighbourTable is one of the kernel's two tables of neighbours, which all network namespaces
// of a machine share.
type NeighbourTable struct {
	Name string `json:"name"` // arp_cache for IPv4, ndisc_cache for IPv6
	// GCThresh1 to GCThresh3 are net.ipv4.neigh.default.gc_thresh1 to 3, or those of IPv6: how
	// many entries are left alone, how many are put up with for five seconds, and how many
	// there may be.
	GCThresh1 int `json:"gc_thresh1"`
	GCThresh2 int `json:"gc_thresh2"`
	GCThresh3 int `json:"gc_thresh3"`
	// Entries are all there are, those too that no threshold is about. Learned are those that
	// count, of this network namespace, by interface.
	Entries int            `json:"entries" fact:"volatile"`
	Learned map[string]int `json:"learned" fact:"volatile"`
	// Overflows is how often since boot there was no room for a neighbour, nil where the kernel
	// does not count that.
	Overflows *int64 `json:"overflows" fact:"volatile"`
}

// Interface is one network interface.
type Interface struct {
	Name     string `json:"name"`
	Index    int    `json:"index" fact:"own" lasting:"no"`
	Up       bool   `json:"up"`      // IFF_UP
	Running  bool   `json:"running"` // IFF_RUNNING: has carrier
	Loopback bool   `json:"loopback"`
	MTU      int    `json:"mtu"`
	MAC      string `json:"mac" fact:"own"`
	// Kind is physical, bridge, veth, docker, bond, vlan, tunnel, infiniband,
	// loopback, dummy, wireless or other.
	Kind   string `json:"kind"`
	Driver string `json:"driver"`
	// Speed is in bits per second, nil when the driver does not say.
	Speed *int64 `json:"speed" unit:"bit/s"`
	// Addresses are CIDR prefixes in kernel order, IPv4 before IPv6.
	Addresses []string `json:"addresses" fact:"own"`
	Master    string   `json:"master,omitempty"` // the bridge or bond it belongs to
}

// Route is how packets to one address leave this node.
type Route struct {
	Name      string `json:"name"` // the hostfile name asked for
	To        string `json:"to"`   // its first address on the launching machine
	Interface string `json:"interface,omitempty"`
	Source    string `json:"source,omitempty"`
	Gateway   string `json:"gateway,omitempty"`
	Error     string `json:"error,omitempty"` // "network is unreachable"
}

// Listener is a TCP port somebody listens on.
type Listener struct {
	Address string `json:"address"` // "0.0.0.0", "::", "10.0.0.1"
	Port    int    `json:"port"`
	// PID is its holder, looked for only at the ports where a launch meets: the
	// master's, 29400 and 29500. It is 0 elsewhere and when the holder cannot be
	// seen. Command is the first words of its command line.
	PID     int    `json:"pid,omitempty"`
	Command string `json:"command,omitempty"`
	UID     int    `json:"uid"`
	// Preflight is whether it is another preflight's, which tries the same
	// rendezvous at this moment. It leaves the port by itself.
	Preflight bool `json:"preflight,omitempty"`
}

// containerBridges are how the names of interfaces begin that container engines and
// hypervisors make on a machine.
//
// Source: the defaults of Docker and podman, libvirt, and the CNI plugins bridge,
// flannel, Calico and Cilium.
var containerBridges = []string{"docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "lxc"}

// ForContainers is whether a container engine made the interface. Whether its link is up,
// how fast it is and what MAC it has says which containers run just now, and no launch
// should use it.
func (i Interface) ForContainers() bool {
	return slices.ContainsFunc(containerBridges, func(start string) bool { return strings.HasPrefix(i.Name, start) })
}

// Internal is whether the interface leads to nothing but this machine and what runs on it.
// A bridge may have an adapter and lead to the other nodes: who knows that it does is
// not to ask.
func (i Interface) Internal() bool {
	return i.Loopback || i.Kind == "bridge" || i.ForContainers() || i.Passing()
}

// Passing is whether the interface is the outer end of a container's, which comes and goes
// with it under a name of chance: it is part of a bridge, or holds no address that a peer
// could call. The inner end, which is the eth0 of a container, holds one.
func (i Interface) Passing() bool {
	return i.Kind == "veth" && (i.Master != "" || !slices.ContainsFunc(i.Addresses, callable))
}

// callable is whether an address, as an Interface has it, is more than link-local.
func callable(address string) bool {
	prefix, err := netip.ParsePrefix(address)
	return err == nil && !prefix.Addr().IsLinkLocalUnicast()
}

// IPv4 are its addresses of that kind, as CIDR prefixes.
func (i Interface) IPv4() (addresses []string) {
	for _, address := range i.Addresses {
		if prefix, err := netip.ParsePrefix(address); err == nil && prefix.Addr().Is4() {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// IB is what sysfs says of InfiniBand and RoCE adapters. An empty list of
// devices is a fact: this node has none.
type IB struct {
	Devices []HCA `json:"devices" fact:"key=name"`
	// Verbs lists /dev/infiniband/uverbs* as this session sees them.
	Verbs []string `json:"verbs"`
	// Peermem is whether GPU memory can be registered by nvidia_peermem or nv_peer_mem.
	Peermem bool `json:"peermem"`
	// Libraries are those found of what RDMA takes, libibverbs.so.1 and libmlx5.so.1,
	// and every libnccl-net*.so and libnccl-tuner*.so in the loader's path.
	Libraries []RDMALibrary `json:"libraries" fact:"key=name"`
	// Refused are what opening a device of Verbs says, by path, where it says something.
	Refused []DeviceNode `json:"refused,omitempty" fact:"key=path"`
}

// RDMALibrary is a library by its soname and where the loader finds it.
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
	NUMANode int    `json:"numa_node"` // -1 when the kernel does not say
	// Kind is the kernel's word for its transport: CA for InfiniBand and RoCE, RNIC for
	// iWARP, others for makers' own; "" when the kernel does not say.
	Kind   string `json:"kind,omitempty"`
	Driver string `json:"driver,omitempty"` // of the PCI device: mlx5_core, irdma, efa; "" for a device of software
	// Verbs is the device node that opens it, "/dev/infiniband/uverbs0", "" when the
	// kernel does not say. Whether this session has it is for IB's Verbs and Refused to tell.
	Verbs string `json:"verbs,omitempty" fact:"own"`
	// Path is the way from the root complex, like a PCIGPU's; nil for a device that is on none.
	Path []string `json:"path" fact:"own"`
	// PCIe is what the adapter's slot gives now and what adapter and slot could, "16.0 GT/s PCIe x16".
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
	SMLID     int      `json:"sm_lid"` // 0 for RoCE and before a subnet manager came
	NetDev    string   `json:"netdev"` // its network interface, "" when there is none
	GIDs      []GID    `json:"gids" fact:"own"`
	PKeys     []string `json:"pkeys"` // "0xffff", empty slots left out
	// QoS is how the interface of a port of RoCE sorts what it takes and what of that it has paused, nil where
	// the kernel does not tell.
	QoS *QoS `json:"qos"`
	// PKeySlots are the places of PKeys in the table, nil where none is empty before them.
	PKeySlots []int `json:"pkey_slots,omitempty"`
}

// QoS is what an interface does with packets by their priority, 0 to 7.
type QoS struct {
	// Trust is where a packet has its priority: its DSCP, or the tag of its VLAN (pcp).
	Trust string `json:"trust"`
	// Pauses are the priorities whose sender it has wait when it is full (PFC), where packets of others are dropped.
	Pauses []int `json:"pauses"`
	// Priorities are those of code points that were given one, by DSCP.
	Priorities map[string]int `json:"priorities"`
}

// What Trust is.
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

// SSH is how far the login got, and what was met on the way. It is filled on
// the launching machine; Cause is empty when the agent answered.
type SSH struct {
	// Carrier is what reached the node where that was not ssh: srun, mpirun, kubectl, or meet.
	Carrier string `json:"carrier,omitempty"`
	// Options are those of the carrier's own program, by which it went there.
	Options []string `json:"options,omitempty"`

	// Inside is the command behind which our program was started there, in what the ranks run
	// in: docker, exec, -i, train. Nothing where it runs on the node itself. All other facts are of
	// the inside then, and those of the login are of the node.
	Inside []string `json:"inside,omitempty" fact:"own"`

	User string `json:"user,omitempty" fact:"own"`
	Port int    `json:"port,omitempty"`
	// Via lists the jump hosts in the order they are crossed.
	Via []string `json:"via,omitempty"`

	// Stage is the step that failed: resolve, connect, greet, negotiate,
	// host-key, login, session, shell, inside, deliver, start, talk.
	Stage string `json:"stage,omitempty" fact:"own"`
	// Cause is the failure in one word (remote.Cause), "" on success.
	Cause string `json:"cause,omitempty" fact:"own"`
	// Message is the failure in the words of the side that reported it.
	Message string `json:"message,omitempty" fact:"own"`
	// Detail holds what a cure needs: file names, fingerprints, keys offered.
	Detail map[string]string `json:"detail,omitempty" fact:"own"`
	// OpenSSH says what the system's ssh would have done where it differs
	// from what we did, because the launch uses ssh.
	OpenSSH []string `json:"openssh,omitempty" fact:"own"`

	Banner string `json:"banner,omitempty" fact:"own"` // the server's version string
	// Noise is what the login printed on stdout before our agent spoke,
	// escaped and cut; whatever parses a remote command's output gets it too.
	Noise []string `json:"noise,omitempty"`

	ConnectSeconds float64 `json:"connect_seconds,omitempty" fact:"volatile" unit:"s"` // dial to login
	StartSeconds   float64 `json:"start_seconds,omitempty" fact:"volatile" unit:"s"`   // login to the agent's hello
	Delivered      bool    `json:"delivered,omitempty" fact:"volatile"`                // the binary was pushed by this run
	// Distrusted is the binary that lay there and why it was not run: it was delivered again.
	Distrusted string `json:"distrusted,omitempty" fact:"volatile"`
	// Uncalled is why the node's agent could not call the launching machine, as many agents of one srun do, and was
	// started by an srun of its own.
	Uncalled string `json:"uncalled,omitempty" fact:"volatile"`
	Path     string `json:"path,omitempty" fact:"own" lasting:"no"` // where the binary lies
}
