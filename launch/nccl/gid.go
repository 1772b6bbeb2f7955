// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"net/netip"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// GIDIndex returns the index of the GID that NCCL will use on a port. env is the ranks'
// environment, and nccl is a version, "" for the newest.
//
// For RoCE the index is NCCL_IB_GID_INDEX if that is set and not negative. Otherwise it is 0 before
// 2.21. Since 2.21 NCCL searches the table and usually takes the first IPv4 address of RoCE v2. For
// InfiniBand the index is 0, or since 2.22 that of the GID with a routable FLID.
//
// Source: NVIDIA/nccl 2.30.7, transport/net_ib/connect.cc, ncclIbGetGidIndex and
// ncclUpdateGidIndex, the same search since 2.21.5; 2.20.5, transport/net_ib.cc.
func GIDIndex(port facts.IBPort, env launch.Env, nccl string) int {
	if port.LinkLayer == "InfiniBand" {
		return flidIndex(port, env, nccl)
	}
	given, set := parameter(env.Get("NCCL_IB_GID_INDEX"))
	if set && given >= 0 || hostfile.Before(nccl, "2.21") {
		return int(given)
	}
	walk := gidWalk{wantsIPv4: env.Get("NCCL_IB_ADDR_FAMILY").Value != "AF_INET6", version: 2}
	if version, set := parameter(env.Get("NCCL_IB_ROCE_VERSION_NUM")); set {
		walk.version = version
	}
	walk.within = addressRange(env.Get("NCCL_IB_ADDR_RANGE").Value, walk.wantsIPv4)
	current := gidEntry{} // index 0, which may be empty
	for _, gid := range port.GIDs {
		entry := newGIDEntry(gid)
		if gid.Index == 0 || walk.improves(current, entry) {
			current = entry
		}
	}
	return current.index
}

// flidIndex applies the rule for InfiniBand. Bytes 4 and 5 of a GID are its FLID.
func flidIndex(port facts.IBPort, env launch.Env, nccl string) int {
	routable := int64(1)
	if given, set := parameter(env.Get("NCCL_IB_ROUTABLE_FLID_GID_INDEX")); set {
		routable = given
	}
	if hostfile.Before(nccl, "2.22") {
		return 0
	}
	for _, gid := range port.GIDs {
		if raw := newGIDEntry(gid).address.As16(); int64(gid.Index) == routable && (raw[4] != 0 || raw[5] != 0) {
			return gid.Index
		}
	}
	return 0
}

// IsRoCEv2 reports whether a GID is for RoCE v2, whose packets routers forward.
func IsRoCEv2(gid facts.GID) bool { return gid.Type == "RoCE v2" }

// gidEntry is an entry of the GID table. The zero value is an empty entry.
type gidEntry struct {
	index   int
	address netip.Addr
	version int64 // version of RoCE, 0 if the kernel does not report it
}

func newGIDEntry(gid facts.GID) gidEntry {
	entry := gidEntry{index: gid.Index, address: netip.IPv6Unspecified()}
	if address, err := netip.ParseAddr(gid.GID); err == nil {
		entry.address = address
	}
	switch {
	case strings.HasPrefix(gid.Type, "IB/RoCE v1"), strings.HasPrefix(gid.Type, "RoCE v1"):
		entry.version = 1
	case strings.HasPrefix(gid.Type, "RoCE v2"):
		entry.version = 2
	}
	return entry
}

func (e gidEntry) isIPv4() bool { return e.address.Is4In6() }

func (e gidEntry) isValid() bool {
	return e.address.IsValid() && !e.address.IsUnspecified() && !e.address.IsLinkLocalUnicast()
}

// gidWalk holds what NCCL looks for in a GID table.
type gidWalk struct {
	wantsIPv4 bool
	version   int64
	within    netip.Prefix // the zero value means any address
}

func (w gidWalk) improves(current, next gidEntry) bool {
	fits := next.isIPv4() == w.wantsIPv4 && (!w.within.IsValid() || w.within.Contains(next.address.Unmap()))
	switch {
	case !fits:
		return false
	case current.isIPv4() != next.isIPv4():
		return true // the right family, with any version
	}
	return next.isValid() && next.version == w.version && (current.version != next.version || !current.isValid())
}

// addressRange parses NCCL_IB_ADDR_RANGE, "10.0.0.0/16". NCCL ignores values that it cannot parse
// and values of the other address family.
func addressRange(text string, isIPv4 bool) netip.Prefix {
	base, bits, _ := strings.Cut(text, "/")
	address, _ := netip.ParseAddr(base) // the zero address makes the prefix invalid
	if address.Is4() != isIPv4 {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(address, leadingInt(bits))
}
