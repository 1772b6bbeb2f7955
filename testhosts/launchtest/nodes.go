// SPDX-License-Identifier: Apache-2.0

// Package launchtest builds nodes for the tests of package launch from short descriptions of their
// interfaces, names and environment. Only tests import it.
package launchtest

import (
	"strings"

	"preflight/facts"
)

// Net returns the network of a node from one text for each interface, in kernel order. An example
// is "eth0 10.0.0.1/24 fd00::1/64". lo is a loopback interface. A leading "!" means that the
// interface is down, and a leading "~" means that it has no carrier.
func Net(interfaces ...string) *facts.Net {
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

// Names returns the names that a node resolves, from texts such as "w1 127.0.1.1". The node's own
// name comes first.
func Names(lookups ...string) *facts.Names {
	names := &facts.Names{}
	for _, text := range lookups {
		fields := strings.Fields(text)
		names.Lookups = append(names.Lookups, facts.Lookup{Name: fields[0], Addresses: fields[1:]})
	}
	names.Own = names.Lookups[0].Name
	names.FQDN = names.Own
	return names
}

// Node returns node w1 with an environment of "NAME=VALUE" pairs.
func Node(net *facts.Net, names *facts.Names, pairs ...string) *facts.Node {
	return &facts.Node{Name: "w1", Facts: facts.Facts{Net: net, Names: names, Env: &facts.Env{Vars: Env("environment", pairs...)}}}
}

// Env returns settings from "NAME=VALUE" pairs, all with the same source.
func Env(source string, pairs ...string) []facts.Setting {
	var settings []facts.Setting
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		settings = append(settings, facts.Setting{Name: name, Value: value, Source: source})
	}
	return settings
}
