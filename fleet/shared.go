// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"preflight/agent"
	"preflight/drill/shared"
	"preflight/facts"
	"preflight/remote"
)

const (
	// A node looks for the file of a peer for sharedPatience. On a file system that belongs to one
	// machine, a file is there at once or never.
	sharedPatience = 5 * time.Second
	ownPatience    = 200 * time.Millisecond
	// putTime is how long a node may take to write its files.
	putTime = 3 * time.Second
	// mostDirectories limits how many directories the drill tries.
	mostDirectories = 8
	// lookedFor is for how many others each node looks in a large fleet. In a fleet with fewer
	// nodes, each node looks for all others.
	lookedFor = 4
)

// usesHub lists the packages that keep files and locks in the cache of the Hub.
var usesHub = []string{"datasets", "diffusers", "huggingface_hub", "peft", "sentence_transformers", "transformers", "trl"}

func (r *run) noSharing() string {
	if len(r.sharedDirectories()) == 0 {
		return "the launch and the policy name no directory that nodes share"
	}
	return ""
}

// sharedDirectories returns the directories in which nodes may share files, with the members that
// try each. These are the directories of the policy, those in which the launch makes ranks leave
// files for other ranks, and caches that several nodes have on one network file system.
func (r *run) sharedDirectories() map[string]members {
	dirs := map[string]members{}
	add := func(path string, who members) {
		if _, known := dirs[path]; known || len(dirs) < mostDirectories && len(who) > 1 {
			dirs[path] = who
		}
	}
	for _, path := range r.Shared {
		add(path, r.members)
	}
	for _, place := range r.Prediction.Places {
		if place.Role != facts.RoleCheckpoint && place.Role != facts.RoleResume && strings.HasPrefix(place.Path, "/") { // the ranks only read these two
			add(place.Path, r.members)
		}
	}
	caches := []string{"torch-extensions"}
	if len(r.Prediction.Models) > 0 || slices.ContainsFunc(r.script().Imports, func(name string) bool { return slices.Contains(usesHub, name) }) {
		caches = append(caches, "hf-cache")
	}
	for _, m := range r.members {
		for _, role := range caches {
			if first := m.placeOf(role); first != nil && first.Remote() {
				add(first.Path, r.members.only(func(other *member) bool {
					place := other.placeOf(role)
					return place != nil && place.Path == first.Path && place.Source == first.Source
				}))
			}
		}
	}
	return dirs
}

// placeOf returns the member's place with a role, or nil if it is unknown.
func (m *member) placeOf(role string) *facts.Place {
	return m.findPlace(func(p facts.Place) bool { return p.Role == role })
}

func (m *member) findPlace(is func(facts.Place) bool) *facts.Place {
	if m.Disk == nil {
		return nil
	}
	if at := slices.IndexFunc(m.Disk.Places, is); at >= 0 {
		return &m.Disk.Places[at]
	}
	return nil
}

// wrote is what a member wrote into one directory, with the time at which its answer came.
type wrote struct {
	facts.SharedDirectory
	at time.Time
}

// shareFiles makes the members write files into the shared directories, and then look for the files
// and locks of the others. All members remove their files at the end.
func (r *run) shareFiles(ctx context.Context, d Drill) {
	ctx, over := context.WithCancel(ctx)
	defer over()
	dirs := r.sharedDirectories()
	written := make([]map[string]wrote, len(r.members))
	r.members.each(func(m *member) {
		put := shared.Put{Token: r.token, Node: strconv.Itoa(m.position), Peer: strconv.Itoa((m.position + 1) % len(r.members))}
		for path, who := range dirs {
			if slices.Contains(who, m) {
				put.Paths = append(put.Paths, path)
			}
		}
		slices.Sort(put.Paths)
		put.Paths = slices.Compact(put.Paths)
		if put.Paths == nil {
			learn(m, &m.Facts.Shared, d.Section, facts.Shared{Directories: []facts.SharedDirectory{}}, nil) // other nodes share a cache that this node has on its own disk
			return
		}
		seen, err := agent.Put.Start(ctx, m.agent, put, putTime+r.crowd(), nil)
		if err == nil && len(seen.Directories) != len(put.Paths) {
			err = fmt.Errorf("the agent answered for %d of %d directories", len(seen.Directories), len(put.Paths))
		}
		if err != nil {
			learn(m, &m.Facts.Shared, d.Section, facts.Shared{}, err)
			return
		}
		written[m.position] = map[string]wrote{}
		for i, dir := range seen.Directories {
			dir.Path = put.Paths[i]
			written[m.position][dir.Path] = wrote{dir, time.Now()}
		}
	})
	who := r.members.only(func(m *member) bool { return written[m.position] != nil })
	r.each(ctx, d.Phase, who, d.Limit, func(ctx context.Context, m *member) error {
		result, err := r.lookFor(ctx, m, dirs, written)
		learn(m, &m.Facts.Shared, d.Section, result, err)
		return err
	})
}

// lookFor makes one member look for the files of its peers in all its directories.
func (r *run) lookFor(ctx context.Context, m *member, dirs map[string]members, written []map[string]wrote) (facts.Shared, error) {
	own := written[m.position]
	look := shared.Look{Token: r.token, Node: strconv.Itoa(m.position)}
	var result facts.Shared
	var tried []int // position in result of each directory that m looks into
	for _, path := range sortedPaths(own) {
		dir := own[path].SharedDirectory
		result.Directories = append(result.Directories, dir)
		if dir.Problem != "" {
			continue
		}
		peers := shared.Peers{At: dir.At, Write: dir.Failed == ""}
		for _, peer := range peersIn(dirs[path], m) {
			theirs, known := written[peer.position][path]
			if !known || theirs.Problem != "" || theirs.Failed != "" {
				continue
			}
			of := shared.Peer{Name: peer.Name, Node: strconv.Itoa(peer.position), At: theirs.At, Patience: sharedPatience}
			if m.hasOwn(path) {
				of.Patience = ownPatience
			}
			for _, kind := range []string{facts.LockFlock, facts.LockFcntl} {
				if theirs.Locks[kind] == "" {
					of.Locked = append(of.Locked, kind)
				}
			}
			peers.Of = append(peers.Of, of)
		}
		look.Dirs, tried = append(look.Dirs, peers), append(tried, len(result.Directories)-1)
	}
	began := time.Now()
	found, err := agent.Look.Ask(ctx, m.agent, look)
	if err == nil && len(found.Directories) != len(look.Dirs) {
		err = fmt.Errorf("%w for every directory", remote.ErrNoAnswer)
	}
	if err != nil {
		return result, err
	}
	for i, seen := range found.Directories {
		into := &result.Directories[tried[i]]
		into.Peers = seen.Peers
		if seen.Failed != "" {
			into.Failed, into.Error, into.Code = seen.Failed, seen.Error, seen.Code
		}
		for at := range into.Peers {
			peer := &into.Peers[at]
			if peer.Seconds > 0 {
				peer.Seconds += began.Sub(written[r.members.index(peer.Peer)][into.Path].at).Seconds()
			}
		}
	}
	return result, nil
}

func sortedPaths(of map[string]wrote) (paths []string) {
	for path := range of {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

// peersIn returns the members for whose files m looks: all in a small fleet, and otherwise the
// next ones.
func peersIn(who members, m *member) (peers members) {
	at := slices.Index(who, m)
	for next := 1; next < len(who) && (next <= lookedFor || len(who) <= 2*lookedFor); next++ {
		peers = append(peers, who[(at+next)%len(who)])
	}
	return peers
}

// hasOwn reports whether a member has a directory on a file system that belongs to one machine.
func (m *member) hasOwn(path string) bool {
	place := m.findPlace(func(p facts.Place) bool { return p.Path == path })
	return place != nil && place.Own()
}
