package facts

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
	// resolves on the launching machine; to a sample of them in a large fleet.
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
}
