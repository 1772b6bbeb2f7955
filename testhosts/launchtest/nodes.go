// SPDX-License-Identifier: Apache-2.0

// Package launchtest makes nodes for the tests of what a launch will do: what they hold,
// resolve and see, in a few words each. Nothing but tests imports it.
package launchtest

import (
	"strings"

	"preflight/facts"
)

// Net makes the network of a node from one word group an interface:
// "eth0 10.0.0.1/24 fd00::1/64", in kernel order. lo is a loopback; a leading
// "!" says that the interface is down, a leading "~" that it has no carrier.
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

// Names makes what a node resolves: its own name first, "w1 127.0.1.1".
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

// Node is w1 with an environment of "NAME=VALUE".
func Node(net *facts.Net, names *facts.Names, pairs ...string) *facts.Node {
	return &facts.Node{Name: "w1", Facts: facts.Facts{Net: net, Names: names, Env: &facts.Env{Vars: Env("environment", pairs...)}}}
}

// Env makes settings of "NAME=VALUE", all from one source.
func Env(source string, pairs ...string) []facts.Setting {
	var settings []facts.Setting
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		settings = append(settings, facts.Setting{Name: name, Value: value, Source: source})
	}
	return settings
}
