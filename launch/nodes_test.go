package launch

import (
	"strings"

	"preflight/facts"
)

// netOf makes the network of a node from one word group an interface:
// "eth0 10.0.0.1/24 fd00::1/64", in kernel order. lo is a loopback; a leading
// "!" says that the interface is down, a leading "~" that it has no carrier.
func netOf(interfaces ...string) *facts.Net {
	net := &facts.Net{}
	for index, text := range interfaces {
		fields := strings.Fields(text)
		name := strings.TrimLeft(fields[0], "!~")
		isDown, hasNoCarrier := strings.HasPrefix(fields[0], "!"), strings.HasPrefix(fields[0], "~")
		net.Interfaces = append(net.Interfaces, facts.Interface{
			Name: name, Index: index + 1, Up: !isDown, Running: !isDown && !hasNoCarrier, Loopback: name == "lo", Addresses: fields[1:],
		})
	}
	return net
}

// namesOf makes what a node resolves: its own name first, "w1 127.0.1.1".
func namesOf(lookups ...string) *facts.Names {
	names := &facts.Names{}
	for _, text := range lookups {
		fields := strings.Fields(text)
		names.Lookups = append(names.Lookups, facts.Lookup{Name: fields[0], Addresses: fields[1:]})
	}
	names.Own = names.Lookups[0].Name
	names.FQDN = names.Own
	return names
}

func nodeOf(net *facts.Net, names *facts.Names, pairs ...string) *facts.Node {
	return &facts.Node{Name: "w1", Facts: facts.Facts{Net: net, Names: names, Env: &facts.Env{Vars: env("environment", pairs...)}}}
}

// place is interface and address, or the error, of a choice.
func place(c Choice) string {
	switch {
	case c.Error != "":
		return c.Error
	case c.Address == "":
		return "?"
	}
	return c.Interface + " " + c.Address
}

func places(choices []Choice) []string {
	var all []string
	for _, c := range choices {
		all = append(all, place(c))
	}
	return all
}
