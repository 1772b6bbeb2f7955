package probe

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"preflight/facts"
)

// interfaces lists the links of this network namespace by index, each with its
// addresses in the order in which getifaddrs, and so NCCL, meets them.
func interfaces(o options) ([]facts.Interface, error) {
	links, err := netlink.LinkList()
	// An interrupted dump is a list that changed while we read it: still the
	// best there is.
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("interfaces: %w", err)
	}
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("addresses: %w", err)
	}
	slices.SortFunc(links, func(a, b netlink.Link) int { return cmp.Compare(a.Attrs().Index, b.Attrs().Index) })

	found := []facts.Interface{}
	for _, link := range links {
		attrs := link.Attrs()
		sys := openSysfsLink(o, attrs.Name, attrs.Index, attrs.HardwareAddr.String())
		found = append(found, facts.Interface{
			Name:      attrs.Name,
			Index:     attrs.Index,
			Up:        attrs.RawFlags&unix.IFF_UP != 0,
			Running:   attrs.RawFlags&unix.IFF_RUNNING != 0,
			Loopback:  attrs.RawFlags&unix.IFF_LOOPBACK != 0,
			MTU:       attrs.MTU,
			MAC:       attrs.HardwareAddr.String(),
			Kind:      linkKind(attrs.Name, link.Type(), attrs.EncapType, attrs.ParentDev != "" || sys.hasDevice(), sys.isWireless()),
			Driver:    sys.driver(),
			Speed:     sys.speed(),
			Addresses: addressesOf(addresses, attrs.Index),
			Master:    masterName(links, attrs.MasterIndex),
		})
	}
	return found, nil
}

// addressesOf are one link's prefixes, IPv4 before IPv6, otherwise in the
// kernel's order.
func addressesOf(all []netlink.Addr, index int) []string {
	v4, v6 := []string{}, []string{}
	for _, address := range all {
		switch {
		case address.LinkIndex != index:
		case address.IP.To4() != nil:
			v4 = append(v4, address.IPNet.String())
		default:
			v6 = append(v6, address.IPNet.String())
		}
	}
	return append(v4, v6...)
}

func masterName(links []netlink.Link, index int) string {
	for _, link := range links {
		if index != 0 && link.Attrs().Index == index {
			return link.Attrs().Name
		}
	}
	return ""
}

// dockerBridge is how docker names the bridge of a user-defined network: br-
// and the first twelve digits of the network's id.
var dockerBridge = regexp.MustCompile(`^br-[0-9a-f]{12}$`)

// linkKinds sorts the kernel's link types (IFLA_INFO_KIND) into ours.
var linkKinds = map[string]string{
	"bridge": "bridge", "openvswitch": "bridge",
	"veth": "veth", "netkit": "veth",
	"bond": "bond", "team": "bond",
	"vlan":  "vlan",
	"dummy": "dummy", "nlmon": "dummy",
	"ipoib": "infiniband",
	"tun":   "tunnel", "tuntap": "tunnel", "vxlan": "tunnel", "geneve": "tunnel", "wireguard": "tunnel",
	"gre": "tunnel", "gretap": "tunnel", "ip6gre": "tunnel", "ip6gretap": "tunnel", "erspan": "tunnel",
	"ipip": "tunnel", "ip6tnl": "tunnel", "sit": "tunnel", "vti": "tunnel", "vti6": "tunnel", "xfrm": "tunnel",
	"bareudp": "tunnel", "ovpn": "tunnel",
}

// linkKind sorts one link. linkType is the kernel's link type, "device" where a
// driver made the link without one; encap is the hardware type.
func linkKind(name, linkType, encap string, device, wireless bool) string {
	kind, known := linkKinds[linkType]
	switch {
	case encap == "loopback":
		return "loopback"
	case strings.HasPrefix(name, "docker"), dockerBridge.MatchString(name):
		return "docker"
	case encap == "infiniband":
		return "infiniband"
	case known:
		return kind
	case linkType != "device":
		return "other"
	case wireless:
		return "wireless"
	case device:
		return "physical"
	}
	return "other"
}

// sysfsLink is a link's directory in sysfs, "" when there is none that can be
// trusted: a /sys mounted in another network namespace shows that one's links,
// and the same names mean other devices there.
type sysfsLink string

func openSysfsLink(o options, name string, index int, mac string) sysfsLink {
	link := sysfsLink(o.at("/sys/class/net/" + name))
	if line(link.path("ifindex")) != strconv.Itoa(index) || (mac != "" && line(link.path("address")) != mac) {
		return ""
	}
	return link
}

func (l sysfsLink) path(entry string) string { return filepath.Join(string(l), entry) }
func (l sysfsLink) hasDevice() bool          { return l != "" && exists(l.path("device")) }
func (l sysfsLink) isWireless() bool         { return l != "" && exists(l.path("phy80211")) }

// driver is "" where the link has no device behind it.
func (l sysfsLink) driver() string {
	target, err := os.Readlink(l.path("device/driver"))
	if l == "" || err != nil {
		return ""
	}
	return filepath.Base(target)
}

// speed is in bits per second. The file holds megabits; it cannot be read while
// a link is down and holds -1 where the driver does not know.
func (l sysfsLink) speed() *int64 {
	megabits, known := number(l.path("speed"))
	if l == "" || !known || megabits <= 0 {
		return nil
	}
	bits := megabits * 1_000_000
	return &bits
}
