// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"preflight/hostfile"
)

const (
	// mostLookups is the maximum number of names in -w that are looked up to find misspelt names.
	mostLookups = 16
	// lookupPatience is the time limit for all lookups together.
	lookupPatience = 2 * time.Second
)

// typos returns the nodes of -w that have no address and whose name is similar to a known name. It
// maps each to that name.
func typos(ctx context.Context, hosts []hostfile.Host) map[string]string {
	known := knownNames()
	ctx, cancel := context.WithTimeout(ctx, lookupPatience)
	defer cancel()
	lookups, meant := 0, map[string]string{}
	for _, host := range hosts {
		name := hostfile.Bare(host.Name)
		near := hostfile.Near(name, known)
		if slices.Contains(known, name) || near == "" || lookups == mostLookups {
			continue
		}
		lookups++
		if _, err := net.DefaultResolver.LookupHost(ctx, name); err != nil {
			meant[host.Name] = strings.TrimSuffix(host.Name, name) + near
		}
	}
	return meant
}

// knownNames returns the host names in the nearest hostfile, in the user's ssh configuration and
// known_hosts, and in /etc/hosts. Hashed names in known_hosts cannot be read.
func knownNames() (names []string) {
	hosts, _, _ := hostfile.ReadFile(nearestHostfile(), "") // nil if the hostfile has errors
	for _, host := range hosts {
		names = append(names, hostfile.Bare(host.Name))
	}
	home, _ := os.UserHomeDir() // "" finds no file
	for file, namesOf := range map[string]func(words []string) []string{
		"/etc/hosts": func(words []string) []string { return words[1:] },
		filepath.Join(home, ".ssh", "known_hosts"): func(words []string) []string {
			return strings.Split(words[0], ",")
		},
		filepath.Join(home, ".ssh", "config"): func(words []string) []string {
			if strings.EqualFold(words[0], "Host") {
				return words[1:]
			}
			return nil
		},
	} {
		content, _ := os.ReadFile(file)
		for line := range strings.Lines(string(content)) {
			line, _, _ = strings.Cut(line, "#")
			if words := strings.Fields(line); len(words) > 0 {
				for _, name := range namesOf(words) {
					if !strings.ContainsAny(name, "*?!|[@") {
						names = append(names, name)
					}
				}
			}
		}
	}
	return names
}
