// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"strings"
	"testing"

	"preflight/facts"
	"preflight/launch"
	"preflight/testhosts/launchtest"
)

// gids returns a GID table. Each entry is "index type address". The type is 1 or 2 for the version
// of RoCE, and ? if it is unknown.
func gids(entries ...string) (table []facts.GID) {
	types := map[string]string{"1": "IB/RoCE v1", "2": "RoCE v2", "?": ""}
	for _, entry := range entries {
		fields := strings.Fields(entry)
		gid := facts.GID{GID: fields[2], Type: types[fields[1]]}
		if _, err := fmt.Sscan(fields[0], &gid.Index); err != nil {
			panic(err)
		}
		table = append(table, gid)
	}
	return table
}

// TestGIDIndex follows NVIDIA/nccl, ncclIbGetGidIndex and ncclUpdateGidIndex, 2.21.5 to 2.30.7.
func TestGIDIndex(t *testing.T) {
	const local, v4, other, v6 = "fe80:0000:0000:0000:0e42:a1ff:fe00:0001", "0000:0000:0000:0000:0000:ffff:0a00:0001",
		"0000:0000:0000:0000:0000:ffff:0a01:0001", "fd00:0000:0000:0000:0000:0000:0000:0001"
	usual := gids("0 1 "+local, "1 2 "+local, "2 1 "+v4, "3 2 "+v4)
	for _, c := range []struct {
		name  string
		layer string
		gids  []facts.GID
		env   []string
		nccl  string
		want  int
	}{
		{"the usual table", "Ethernet", usual, nil, "2.21.5", 3},
		{"newest", "Ethernet", usual, nil, "", 3},
		{"by default before 2.21", "Ethernet", usual, nil, "2.20.5", 0},
		{"given before 2.21", "Ethernet", usual, []string{"NCCL_IB_GID_INDEX=3"}, "2.20.5", 3},
		{"given", "Ethernet", usual, []string{"NCCL_IB_GID_INDEX=1"}, "2.23.4", 1},
		{"given as none", "Ethernet", usual, []string{"NCCL_IB_GID_INDEX=-1"}, "2.23.4", 3},
		{"given as no number", "Ethernet", usual, []string{"NCCL_IB_GID_INDEX=auto"}, "2.23.4", 0},
		{"RoCE v1", "Ethernet", usual, []string{"NCCL_IB_ROCE_VERSION_NUM=1"}, "", 2},
		{"IPv6, link-local only", "Ethernet", usual, []string{"NCCL_IB_ADDR_FAMILY=AF_INET6"}, "", 0},
		{"IPv6", "Ethernet", append(usual, gids("4 1 "+v6, "5 2 "+v6)...), []string{"NCCL_IB_ADDR_FAMILY=AF_INET6"}, "", 5},
		{"an unknown family is IPv4", "Ethernet", append(usual, gids("4 2 "+v6)...), []string{"NCCL_IB_ADDR_FAMILY=inet6"}, "", 3},
		{"the first of two addresses", "Ethernet", append(usual, gids("4 1 "+other, "5 2 "+other)...), nil, "", 3},
		{"the one in range", "Ethernet", append(usual, gids("4 1 "+other, "5 2 "+other)...), []string{"NCCL_IB_ADDR_RANGE=10.1.0.0/16"}, "", 5},
		{"none in range", "Ethernet", usual, []string{"NCCL_IB_ADDR_RANGE=10.1.0.0/16"}, "", 0},
		{"a range without a length is none", "Ethernet", usual, []string{"NCCL_IB_ADDR_RANGE=10.1.0.0"}, "", 3},
		{"a range that is too long is none", "Ethernet", usual, []string{"NCCL_IB_ADDR_RANGE=10.1.0.0/64"}, "", 3},
		{"a range that is no address is none", "Ethernet", usual, []string{"NCCL_IB_ADDR_RANGE=here/8"}, "", 3},
		{"IPv6 in range", "Ethernet", append(usual, gids("4 2 "+v6)...), []string{"NCCL_IB_ADDR_FAMILY=AF_INET6", "NCCL_IB_ADDR_RANGE=fd00::/8"}, "", 4},
		{"IPv6, no range", "Ethernet", append(usual, gids("4 2 "+v6)...), []string{"NCCL_IB_ADDR_FAMILY=AF_INET6", "NCCL_IB_ADDR_RANGE=/8"}, "", 4},
		{"IPv6 out of range", "Ethernet", append(usual, gids("4 2 "+v6)...), []string{"NCCL_IB_ADDR_FAMILY=AF_INET6", "NCCL_IB_ADDR_RANGE=fc00::/64"}, "", 0},
		{"a range of the other family is none", "Ethernet", usual, []string{"NCCL_IB_ADDR_RANGE=fd00::/8"}, "", 3},
		{"only v2", "Ethernet", gids("0 2 "+local, "1 2 "+v4), nil, "", 1},
		{"only v1 with IPv4", "Ethernet", gids("0 1 "+local, "2 1 "+v4), nil, "", 2},
		{"an empty first slot", "Ethernet", gids("2 1 "+v4, "3 2 "+v4), nil, "", 3},
		{"an empty first slot, IPv6", "Ethernet", gids("1 2 " + v6), []string{"NCCL_IB_ADDR_FAMILY=AF_INET6"}, "", 1},
		{"types that the kernel does not tell", "Ethernet", gids("0 ? "+local, "3 ? "+v4, "5 ? "+other), nil, "", 3},
		{"an empty table", "Ethernet", nil, nil, "", 0},
		{"IPv4 first, v2 later", "Ethernet", gids("0 1 "+v4, "1 2 "+v4), nil, "", 1},

		{"InfiniBand", "InfiniBand", gids("0 1 fe80:0000:0000:0000:0000:0000:0000:0001"), nil, "", 0},
		{"InfiniBand, given for RoCE", "InfiniBand", gids("0 1 " + local), []string{"NCCL_IB_GID_INDEX=3"}, "", 0},
		{"a routable FLID", "InfiniBand", gids("0 1 "+local, "1 1 fec0:0000:0012:0000:0000:0000:0000:0001"), nil, "2.22.3", 1},
		{"no FLID", "InfiniBand", gids("0 1 "+local, "1 1 fec0:0000:0000:0000:0000:0000:0000:0001"), nil, "", 0},
		{"before FLIDs", "InfiniBand", gids("0 1 "+local, "1 1 fec0:0000:0012:0000:0000:0000:0000:0001"), nil, "2.21.5", 0},
		{"a FLID elsewhere", "InfiniBand", gids("2 1 fec0:0000:0012:0000:0000:0000:0000:0001"), []string{"NCCL_IB_ROUTABLE_FLID_GID_INDEX=2"}, "", 2},
	} {
		port := facts.IBPort{LinkLayer: c.layer, GIDs: c.gids}
		if got := GIDIndex(port, launch.RankEnv(&facts.Env{Vars: launchtest.Env("environment", c.env...)}, nil), c.nccl); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
