// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"net/netip"
	"slices"
	"strings"
)

// Names is how this node resolves names.
type Names struct {
	// Own is the result of gethostname(), and FQDN its canonical name.
	Own  string `json:"own" fact:"own"`
	FQDN string `json:"fqdn" fact:"own"`
	// Lookups has one entry per name: the node's own hostname, the master's name and the names in
	// the hostfile.
	Lookups []Lookup `json:"lookups" fact:"key=name"`
	// Asked is how many names the hostfile has. If Lookups has fewer, the node looked up a sample.
	Asked int `json:"asked" fact:"volatile"`
	// HostsTraps are lines of /etc/hosts that map this machine's own name to a loopback address
	// ("127.0.1.1 w3").
	HostsTraps []string `json:"hosts_traps" fact:"own"`
	// Resolver is the hosts line of nsswitch.conf ("files dns").
	Resolver string `json:"resolver"`
}

// OutOfTime is the error of a name that was not looked up, or got no answer, before the whole run's
// time was over. It does not mean that the name service has a problem.
const OutOfTime = "not answered before the time of the run was over"

// Lookup is one name as it was requested, including user@, and what its host resolves to on this
// node, in resolver order.
type Lookup struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses"` // empty if it does not resolve
	Error     string   `json:"error,omitempty"`
	// Unanswered is set if no answer came in time. The name may still resolve.
	Unanswered bool `json:"unanswered,omitempty"`
}

// Net is the network of one node.
type Net struct {
	Interfaces []Interface `json:"interfaces" fact:"key=name"` // in kernel order (ifindex)
	// Routes says how packets leave for each node, this one included, if its name resolves on the
	// launching machine. In a large fleet it covers only the nodes that this one looks up.
	Routes []Route `json:"routes" fact:"own"`
	// EphemeralLow and EphemeralHigh bound net.ipv4.ip_local_port_range.
	EphemeralLow  int `json:"ephemeral_low"`
	EphemeralHigh int `json:"ephemeral_high"`
	// Reserved is net.ipv4.ip_local_reserved_ports.
	Reserved  string     `json:"reserved_ports"`
	Listening []Listener `json:"listening" fact:"volatile"`
	SoMaxConn int        `json:"somaxconn"`
	// TCP has the settings that change how connections behave, by sysctl name.
	TCP  map[string]string `json:"tcp"`
	IPv6 bool              `json:"ipv6"` // the kernel has it and it is not disabled
	// Neighbours are the kernel's tables that map addresses on its links to MACs, nil if the kernel
	// does not show them.
	Neighbours []NeighbourTable `json:"neighbours" fact:"key=name"`
	// Counters are the errors that network interfaces, RDMA ports and PCI Express have counted
	// since they came up, by place and kind: "mlx5_0:1 symbol_error", "eth0 carrier_changes",
	// "0000:4e:00.0 aer_fatal". Zero counters are left out; nil if the kernel does not show them.
	Counters map[string]int64 `json:"counters" fact:"volatile"`
	// Docker has the address pools of Docker's networks, nil if its configuration could not be
	// read.
	Docker *Docker `json:"docker"`
}

// Docker is the network part of /etc/docker/daemon.json.
type Docker struct {
	Pools []AddressPool `json:"pools" fact:"key=base"` // empty if Docker uses its defaults
}

// AddressPool is a network that Docker divides into subnets of one size.
type AddressPool struct {
	Base string `json:"base"` // 172.20.0.0/14
	Size int    `json:"size"` // 16 for subnets of /16
}

// NeighbourTable is one of the kernel's two neighbour tables. All network namespaces of a machine
// share them.
type NeighbourTable struct {
	Name string `json:"name"` // arp_cache for IPv4, ndisc_cache for IPv6
	// GCThresh1 to GCThresh3 are net.ipv4.neigh.default.gc_thresh1 to 3, or those of IPv6. Up to
	// the first, entries are left alone; above the second, they stay for five seconds at most; the
	// third is the maximum.
	GCThresh1 int `json:"gc_thresh1"`
	GCThresh2 int `json:"gc_thresh2"`
	GCThresh3 int `json:"gc_thresh3"`
	// Entries counts all entries, including those that the thresholds ignore. Learned counts those
	// that the thresholds apply to, in this network namespace, by interface.
	Entries int            `json:"entries" fact:"volatile"`
	Learned map[string]int `json:"learned" fact:"volatile"`
	// Overflows is how often since boot the table had no room for a neighbour, nil if the kernel
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
	// Kind is physical, bridge, veth, docker, bond, vlan, tunnel, infiniband, loopback, dummy,
	// wireless or other.
	Kind   string `json:"kind"`
	Driver string `json:"driver"`
	// Speed is in bits per second, nil if the driver does not report it.
	Speed *int64 `json:"speed" unit:"bit/s"`
	// Addresses are CIDR prefixes in kernel order, IPv4 before IPv6.
	Addresses []string `json:"addresses" fact:"own"`
	Master    string   `json:"master,omitempty"` // the bridge or bond it belongs to
}

// Route is how packets to one address leave this node.
type Route struct {
	Name      string `json:"name"` // the name in the hostfile
	To        string `json:"to"`   // its first address on the launching machine
	Interface string `json:"interface,omitempty"`
	Source    string `json:"source,omitempty"`
	Gateway   string `json:"gateway,omitempty"`
	Error     string `json:"error,omitempty"` // "network is unreachable"
}

// Listener is a TCP port on which a process listens.
type Listener struct {
	Address string `json:"address"` // "0.0.0.0", "::", "10.0.0.1"
	Port    int    `json:"port"`
	// PID is the process that listens. It is determined only for rendezvous ports (the master's,
	// 29400 and 29500), and is 0 elsewhere or if the process cannot be seen. Command is the
	// beginning of its command line.
	PID     int    `json:"pid,omitempty"`
	Command string `json:"command,omitempty"`
	UID     int    `json:"uid"`
	// Preflight reports whether it belongs to another preflight that is testing the same
	// rendezvous. That one leaves the port by itself.
	Preflight bool `json:"preflight,omitempty"`
}

// containerBridges are name prefixes of interfaces that container engines and hypervisors create.
//
// Source: the defaults of Docker and podman, libvirt, and the CNI plugins bridge, flannel, Calico
// and Cilium.
var containerBridges = []string{"docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "lxc"}

// ForContainers reports whether a container engine created the interface. Its link state, speed and
// MAC depend on which containers run at the moment, and no launch should use it.
func (i Interface) ForContainers() bool {
	return slices.ContainsFunc(containerBridges, func(start string) bool { return strings.HasPrefix(i.Name, start) })
}

// Internal reports whether the interface leads only to this machine and what runs on it. A bridge
// may contain an adapter and lead to other nodes; callers that know this should not use Internal.
func (i Interface) Internal() bool {
	return i.Loopback || i.Kind == "bridge" || i.ForContainers() || i.Passing()
}

// Passing reports whether the interface is the outer end of a container's veth pair, which comes
// and goes with the container under a random name. Such an end is part of a bridge, or has no
// address that a peer could call. The inner end, a container's eth0, has one.
func (i Interface) Passing() bool {
	return i.Kind == "veth" && (i.Master != "" || !slices.ContainsFunc(i.Addresses, callable))
}

// callable reports whether a prefix in Interface.Addresses is more than link-local.
func callable(address string) bool {
	prefix, err := netip.ParsePrefix(address)
	return err == nil && !prefix.Addr().IsLinkLocalUnicast()
}

// IPv4 returns its IPv4 addresses as CIDR prefixes.
func (i Interface) IPv4() (addresses []string) {
	for _, address := range i.Addresses {
		if prefix, err := netip.ParsePrefix(address); err == nil && prefix.Addr().Is4() {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// IB is what sysfs reports about InfiniBand and RoCE adapters. An empty list of devices is a fact:
// this node has none.
type IB struct {
	Devices []HCA `json:"devices" fact:"key=name"`
	// Verbs lists /dev/infiniband/uverbs* as this session sees them.
	Verbs []string `json:"verbs"`
	// Peermem reports whether nvidia_peermem or nv_peer_mem can register GPU memory.
	Peermem bool `json:"peermem"`
	// Libraries are the RDMA libraries that were found: libibverbs.so.1, libmlx5.so.1, and every
	// libnccl-net*.so and libnccl-tuner*.so in the loader's path.
	Libraries []RDMALibrary `json:"libraries" fact:"key=name"`
	// Refused are the devices in Verbs that could not be opened, by path, with the error.
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
	NUMANode int    `json:"numa_node"` // -1 if the kernel does not report it
	// Kind is the kernel's word for its transport: CA for InfiniBand and RoCE, RNIC for iWARP,
	// others for vendors' own transports. "" if the kernel does not report it.
	Kind   string `json:"kind,omitempty"`
	Driver string `json:"driver,omitempty"` // driver of the PCI device: mlx5_core, irdma, efa; "" for a software device
	// Verbs is its device node, "/dev/infiniband/uverbs0", "" if the kernel does not report it.
	// Whether this session can use it is in IB.Verbs and IB.Refused.
	Verbs string `json:"verbs,omitempty" fact:"own"`
	// Path is the way from the root complex, like PCIGPU.Path; nil for a device that is not on a
	// PCI bus.
	Path []string `json:"path" fact:"own"`
	// PCIe is the adapter's link now, and MaxPCIe the best that adapter and slot support: "16.0
	// GT/s PCIe x16".
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
	NetDev    string   `json:"netdev"` // its network interface, "" for none
	GIDs      []GID    `json:"gids" fact:"own"`
	PKeys     []string `json:"pkeys"` // "0xffff", without empty slots
	// QoS is how the interface of a RoCE port sorts incoming packets, and for which of them it
	// pauses the sender. nil if the kernel does not report it.
	QoS *QoS `json:"qos"`
	// PKeySlots are the positions of PKeys in the table, nil if no slot before them is empty.
	PKeySlots []int `json:"pkey_slots,omitempty"`
}

// QoS is how an interface treats packets by their priority, 0 to 7.
type QoS struct {
	// Trust is where it reads a packet's priority from: its DSCP, or its VLAN tag (pcp).
	Trust string `json:"trust"`
	// Pauses are the priorities for which it makes the sender wait when its buffer is full (PFC).
	// Packets of other priorities are dropped then.
	Pauses []int `json:"pauses"`
	// Priorities maps the DSCP code points that were configured to their priority.
	Priorities map[string]int `json:"priorities"`
}

// These are the values of Trust.
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

// SSH is how far the login got, and what preflight met on the way. The launching machine fills it
// in; Cause is empty if the agent answered.
type SSH struct {
	// Carrier is how preflight reached the node if not over ssh: srun, mpirun, kubectl or meet.
	Carrier string `json:"carrier,omitempty"`
	// Options are the options that preflight passed to that program.
	Options []string `json:"options,omitempty"`

	// Inside is the command that enters the ranks' container, after which the agent's command was
	// put: docker, exec, -i, train. Empty if the agent runs on the node itself. All other facts
	// then describe the inside of the container, and those of the login describe the node.
	Inside []string `json:"inside,omitempty" fact:"own"`

	User string `json:"user,omitempty" fact:"own"`
	Port int    `json:"port,omitempty"`
	// Via lists the jump hosts in order.
	Via []string `json:"via,omitempty"`

	// Stage is the step that failed: resolve, connect, greet, negotiate, host-key, login, session,
	// shell, inside, deliver, start, talk.
	Stage string `json:"stage,omitempty" fact:"own"`
	// Cause is the failure in one word (remote.Cause), "" on success.
	Cause string `json:"cause,omitempty" fact:"own"`
	// Message is the error in the words of the program that reported it.
	Message string `json:"message,omitempty" fact:"own"`
	// Detail has what a fix needs: file names, fingerprints, keys offered.
	Detail map[string]string `json:"detail,omitempty" fact:"own"`
	// OpenSSH lists how the system's ssh, which the launch uses, would have behaved differently.
	OpenSSH []string `json:"openssh,omitempty" fact:"own"`

	Banner string `json:"banner,omitempty" fact:"own"` // the server's version string
	// Noise is what the login printed on stdout before the agent's first message, escaped and
	// shortened. Programs that parse the output of a remote command get it too.
	Noise []string `json:"noise,omitempty"`

	ConnectSeconds float64 `json:"connect_seconds,omitempty" fact:"volatile" unit:"s"` // from dial to login
	StartSeconds   float64 `json:"start_seconds,omitempty" fact:"volatile" unit:"s"`   // from login to the agent's first message
	Delivered      bool    `json:"delivered,omitempty" fact:"volatile"`                // this run copied the agent to the node
	// Distrusted is the cached agent and why it was not run. A new copy was delivered.
	Distrusted string `json:"distrusted,omitempty" fact:"volatile"`
	// Uncalled is why the node's agent, started by a shared srun, could not call the launching
	// machine. It then got an srun of its own.
	Uncalled string `json:"uncalled,omitempty" fact:"volatile"`
	Path     string `json:"path,omitempty" fact:"own" lasting:"no"` // where the agent is stored
}
