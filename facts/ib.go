package facts

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
	// PKeySlots are the places of PKeys in the table, nil where none is empty before them.
	PKeySlots []int `json:"pkey_slots,omitempty"`
}

// GID is one entry of a port's GID table.
type GID struct {
	Index int    `json:"index"`
	GID   string `json:"gid"`
	Type  string `json:"type"` // "IB/RoCE v1", "RoCE v2"
}
