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

// filesFirst answers from /etc/hosts what stands there and asks next for the
// rest, which is what "files" at the head of the sources means. It spares a
// child or a packet for most names of most clusters.
func filesFirst(lines []hostsLine, next lookup) lookup {
	return func(ctx context.Context, name string) ([]string, string, error) {
		var addresses []string
		canonical := ""
		for _, line := range lines {
			if !slices.ContainsFunc(line.names, func(n string) bool { return strings.EqualFold(n, name) }) {
				continue
			}
			if canonical == "" {
				canonical = line.names[0]
			}
			if address := line.address.String(); !slices.Contains(addresses, address) {
				addresses = append(addresses, address)
			}
		}
		if len(addresses) > 0 {
			return addresses, canonical, nil
		}
		return next(ctx, name)
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
