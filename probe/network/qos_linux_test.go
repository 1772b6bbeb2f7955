// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"preflight/facts"
)

// attribute returns a netlink attribute.
func attribute(kind uint16, value ...byte) []byte {
	head := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	head = append(binary.NativeEndian.AppendUint16(head, kind), value...)
	return append(head, make([]byte, -len(head)&3)...)
}

func TestParseQoS(t *testing.T) {
	app := func(selector, priority byte, protocol uint16) []byte {
		return attribute(1, binary.NativeEndian.AppendUint16([]byte{selector, priority}, protocol)...)
	}
	pfc := func(priorities byte) []byte {
		return attribute(ieeePFC, append([]byte{8, priorities}, make([]byte, 134)...)...)
	}
	const nested = 0x8000
	answer := func(parts ...[]byte) []byte {
		head := []byte{0, dcbIEEEGet, 0, 0}
		return append(append(head, attribute(dcbName, []byte("ens5\x00")...)...), attribute(dcbIEEE|nested, slices.Concat(parts...)...)...)
	}
	for _, tt := range []struct {
		name   string
		answer []byte
		want   *facts.QoS
	}{
		{"by DSCP, with a priority that pauses", answer(pfc(1<<3), attribute(ieeeApps|nested, slices.Concat(app(5, 3, 26), app(5, 6, 48), app(1, 3, 0x8915))...)),
			&facts.QoS{Trust: "dscp", Pauses: []int{3}, Priorities: map[string]int{"26": 3, "48": 6}}},
		{"by the VLAN tag, and nothing pauses", answer(pfc(0)), &facts.QoS{Trust: "pcp", Pauses: []int{}, Priorities: map[string]int{}}},
		{"a driver that tells of no PFC", answer(attribute(1, 1, 2, 3, 4)), nil},
		{"half an answer", answer(pfc(1 << 3))[:9], nil},
		{"nothing", nil, nil},
	} {
		if diff := cmp.Diff(tt.want, parseQoS(tt.answer)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestAskDCB checks the request: the kernel would answer EINVAL to a request that it does not
// understand. The driver of the loopback interface has no priorities.
func TestAskDCB(t *testing.T) {
	want := append([]byte{0, dcbIEEEGet, 0, 0}, attribute(dcbName, 'l', 'o', 0)...)
	if got := dcbQuestion("lo").Serialize()[unix.NLMSG_HDRLEN:]; !slices.Equal(got, want) {
		t.Errorf("asked is %v, want %v", got, want)
	}
	if _, err := askDCB("lo"); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("of the loopback interface: %v", err)
	}
	_, err := askDCB("no-such-link")
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("NOT RUN: this kernel answers no question about priorities")
	}
	if !errors.Is(err, unix.ENODEV) {
		t.Errorf("of no interface: %v", err)
	}
}
