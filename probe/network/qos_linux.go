// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/binary"
	"strconv"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"preflight/facts"
)

// These are parts of an RTM_GETDCB message (include/uapi/linux/dcbnl.h, Linux 6.8).
const (
	dcbHeader  = 4  // struct dcbmsg: family, command, padding
	dcbIEEEGet = 21 // DCB_CMD_IEEE_GET
	dcbName    = 1  // DCB_ATTR_IFNAME
	dcbIEEE    = 13 // DCB_ATTR_IEEE, which contains the next two attributes
	ieeePFC    = 2  // DCB_ATTR_IEEE_PFC, a struct ieee_pfc, whose second byte has a bit for each priority
	ieeeApps   = 3  // DCB_ATTR_IEEE_APP_TABLE, a list of struct dcb_app: selector, priority, protocol
	appDSCP    = 5  // IEEE_8021QAZ_APP_SEL_DSCP
)

// qosOf describes how an interface sorts packets and pauses senders. It returns nil if the
// interface's driver does not report that.
func qosOf(name string) *facts.QoS {
	messages, err := askDCB(name)
	if err != nil || len(messages) == 0 {
		return nil
	}
	return parseQoS(messages[0])
}

// dcbMessage is a struct dcbmsg, which precedes the attributes. (Package nl puts raw data last.)
type dcbMessage [dcbHeader]byte

func (dcbMessage) Len() int            { return dcbHeader }
func (m dcbMessage) Serialize() []byte { return m[:] }

// askDCB asks the kernel for an interface's settings. Only changes need a privilege
// (net/dcb/dcbnl.c, dcb_doit).
func askDCB(name string) ([][]byte, error) {
	return dcbQuestion(name).Execute(unix.NETLINK_ROUTE, unix.RTM_GETDCB)
}

func dcbQuestion(name string) *nl.NetlinkRequest {
	request := nl.NewNetlinkRequest(unix.RTM_GETDCB, 0)
	request.AddData(dcbMessage{unix.AF_UNSPEC, dcbIEEEGet})
	request.AddData(nl.NewRtAttr(dcbName, nl.ZeroTerminated(name)))
	return request
}

// parseQoS parses the kernel's answer. mlx5 sorts by DSCP as soon as one code point is configured.
// Without any, it sorts by the VLAN tag (drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c,
// mlx5e_dcbnl_ieee_setapp).
func parseQoS(message []byte) *facts.QoS {
	if len(message) < dcbHeader {
		return nil
	}
	all, err := nl.ParseRouteAttr(message[dcbHeader:])
	if err != nil {
		return nil
	}
	result := &facts.QoS{Trust: facts.TrustPCP, Pauses: []int{}, Priorities: map[string]int{}}
	known := false
	for _, outer := range all {
		inner, err := nl.ParseRouteAttr(outer.Value)
		if outer.Attr.Type&nl.NLA_TYPE_MASK != dcbIEEE || err != nil {
			continue
		}
		for _, attribute := range inner {
			switch kind := attribute.Attr.Type & nl.NLA_TYPE_MASK; {
			case kind == ieeePFC && len(attribute.Value) > 1:
				known = true
				for priority := range 8 {
					if attribute.Value[1]&(1<<priority) != 0 {
						result.Pauses = append(result.Pauses, priority)
					}
				}
			case kind == ieeeApps:
				apps, _ := nl.ParseRouteAttr(attribute.Value) // malformed data gives no entries
				for _, app := range apps {
					if len(app.Value) >= 4 && app.Value[0] == appDSCP {
						result.Trust = facts.TrustDSCP
						result.Priorities[strconv.Itoa(int(binary.NativeEndian.Uint16(app.Value[2:])))] = int(app.Value[1])
					}
				}
			}
		}
	}
	if !known {
		return nil
	}
	return result
}
