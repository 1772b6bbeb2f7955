// SPDX-License-Identifier: Apache-2.0

// Package agents holds the programs that preflight copies to the nodes. `make build` and `make
// cross` compile cmd/agent for several kinds of machines and embed the results in this package. One
// preflight on any machine then serves every kind of node.
//
// A build embeds only the agents that it has just compiled. No agent stays in this tree, and a
// plain `go build` embeds none. Such a preflight sends itself, and serves only nodes like this
// machine.
package agents

import (
	"embed"
	"fmt"
	"io/fs"
	"runtime"
	"sync"

	"preflight/remote"
)

//go:embed carried
var embedded embed.FS

var own = sync.OnceValues(func() (set, error) {
	carried, err := fs.Sub(embedded, "carried")
	if err != nil {
		return nil, err
	}
	return open(carried)
})

// Open returns the agent for a platform. If there is none, the error wraps os.ErrNotExist and says
// how to build it.
func Open(goos, arch string) (*remote.Binary, error) {
	carried, err := own()
	if err != nil {
		return nil, err
	}
	return carried.of(goos, arch)
}

// Static reports whether an agent from Open is static. A static agent was built without cgo and
// cannot load a driver's libraries.
func Static() bool {
	carried, err := own()
	return err == nil && carried.static() // Open will return the error
}

func (s set) static() bool {
	if len(s) == 0 {
		return OwnStatic()
	}
	for _, agent := range s {
		if agent.Loader == "" {
			return true
		}
	}
	return false
}

// OwnStatic works like Static, for this program as its own agent.
func OwnStatic() bool {
	own, err := remote.Own("linux", runtime.GOARCH)
	return err == nil && own.Loader == ""
}

// set maps the file names that cmd/agent/pack gives to agents.
type set map[string]*remote.Binary

// open reads the header of every agent. It reads the rest of an agent once, when a node needs the
// agent.
func open(files fs.FS) (set, error) {
	names, err := fs.Glob(files, "*.gz")
	if err != nil {
		return nil, err
	}
	all := set{}
	for _, name := range names {
		f, err := files.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		all[name], err = remote.Packed(f, sync.OnceValues(func() ([]byte, error) { return fs.ReadFile(files, name) }))
		if err != nil {
			return nil, fmt.Errorf("the agent %s in this preflight: %w", name, err)
		}
	}
	return all, nil
}

func (s set) of(goos, arch string) (*remote.Binary, error) {
	if len(s) == 0 {
		return remote.Own(goos, arch)
	}
	if carried := s[goos+"-"+arch+".gz"]; carried != nil {
		return carried, nil
	}
	return nil, remote.NoBinary(goos, arch)
}
