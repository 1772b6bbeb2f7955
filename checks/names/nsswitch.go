// SPDX-License-Identifier: Apache-2.0

package names

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
)

// readsHosts lists the sources of nsswitch.conf that read /etc/hosts. systemd-resolved reads the
// file by default (resolved.conf(5), ReadEtcHosts).
var readsHosts = []string{"files", "resolve"}

// local lists the beginnings of the names of sources that answer only for some names, without a
// name server: for the machine itself and for names below .local.
var local = []string{"myhostname", "mdns"}

// HidesHosts reports whether the hosts line of a node's nsswitch.conf keeps lookups from /etc/hosts.
// A line in that file then repairs nothing. If first is false, the file may be read after a source
// that does not know the name. If first is true, the file must be read before any name server.
func HidesHosts(node *facts.Node, first bool) bool {
	if node == nil || node.Names == nil || node.Names.Resolver == "" {
		return false
	}
	for word := range strings.FieldsSeq(strings.ReplaceAll(node.Names.Resolver, "[", " [")) {
		switch action, isAction := strings.CutPrefix(word, "["); {
		case slices.Contains(readsHosts, word):
			return false
		case slices.ContainsFunc(local, func(name string) bool { return strings.HasPrefix(word, name) }):
		case isAction && endsLookup(action), !isAction && first:
			return true
		}
	}
	return true
}

// endsLookup reports whether an action of nsswitch.conf, without its opening bracket, ends the
// lookup of a name that the source before it does not know.
func endsLookup(action string) bool {
	action = strings.ToUpper(action)
	return strings.Contains(action, "RETURN") && (strings.HasPrefix(action, "NOTFOUND") || strings.HasPrefix(action, "!") && !strings.HasPrefix(action, "!NOTFOUND"))
}

// ReadHosts changes a finding about names that a node resolves wrongly, not at all, or slowly, if
// the order of the node's sources is the cause. It then replaces the commands that write to
// /etc/hosts.
func ReadHosts(node *facts.Node, first bool, name string, f *checks.Finding) {
	if !HidesHosts(node, first) {
		return
	}
	f.Got = strings.TrimPrefix(fmt.Sprintf("%s; /etc/nsswitch.conf has \"hosts: %s\"", f.Got, node.Names.Resolver), "; ")
	f.Remedy = []fix.Command{
		fix.On(`sudo sed -i -E '/^hosts:/{s/[[:space:]]files([[:space:]]|$)/ /;s/^hosts:/hosts: files/}' /etc/nsswitch.conf`).Inside().Remark("makes lookups read /etc/hosts first"),
		LookUp(name).As(fix.Look),
	}
}
