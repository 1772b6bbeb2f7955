package probe

import (
	"context"
	"net/netip"
	"slices"
	"strings"
)

// hostsLine is one line of /etc/hosts: an address and its names, the first of
// which is the canonical one.
type hostsLine struct {
	address netip.Addr
	names   []string
}

// parseHosts reads /etc/hosts. Lines without a valid address are left out, as
// every resolver does.
func parseHosts(text string) []hostsLine {
	var lines []hostsLine
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if address, err := netip.ParseAddr(fields[0]); err == nil {
			lines = append(lines, hostsLine{address, fields[1:]})
		}
	}
	return lines
}

// filesFirst answers from /etc/hosts what stands there once and asks next for
// the rest, which is what "files" at the head of the sources means. It spares a
// child or a packet for most names of most clusters. A name with several lines is
// for sorter: glibc does not keep their order (RFC 6724), and gloo takes the
// first address it is given.
func filesFirst(lines []hostsLine, next, sorter lookup) lookup {
	return func(ctx context.Context, name string) ([]string, string, error) {
		var found []hostsLine
		for _, line := range lines {
			isName := func(n string) bool { return strings.EqualFold(n, name) }
			isKnown := func(l hostsLine) bool { return l.address == line.address }
			if slices.ContainsFunc(line.names, isName) && !slices.ContainsFunc(found, isKnown) {
				found = append(found, line)
			}
		}
		switch len(found) {
		case 0:
			return next(ctx, name)
		case 1:
			return []string{found[0].address.String()}, found[0].names[0], nil
		}
		return sorter(ctx, name)
	}
}

// hostsTraps are the lines of /etc/hosts that give the machine's own name a
// loopback address, with single blanks and without comments.
func hostsTraps(text, own string) []string {
	traps := []string{}
	for _, line := range parseHosts(text) {
		isOwn := func(name string) bool { return strings.EqualFold(name, own) }
		if line.address.IsLoopback() && slices.ContainsFunc(line.names, isOwn) {
			traps = append(traps, line.address.String()+" "+strings.Join(line.names, " "))
		}
	}
	return traps
}
