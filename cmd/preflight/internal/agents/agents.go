// SPDX-License-Identifier: Apache-2.0

// Package agents carries the programs that nodes are sent. `make build` and `make cross`
// compile cmd/agent for kinds of machines and embed what comes out here, so that one file
// serves every node from whatever machine.
//
// What a build embeds it has just compiled: nothing of it is ever left in this tree, and a
// plain `go build` embeds none. That makes a preflight which sends itself, and so serves
// nodes that are like this machine.
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

// Open returns the agent to send to nodes of a platform. The error wraps os.ErrNotExist when
// there is none, and says how to build it.
func Open(goos, arch string) (*remote.Binary, error) {
	carried, err := own()
	if err != nil {
		return nil, err
	}
	return carried.of(goos, arch)
}

// Static is whether an agent that Open returns is static: such a program was built without
// cgo, and can load no library of a driver.
func Static() bool {
	carried, err := own()
	return err == nil && carried.static() // Open returns the error
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

// OwnStatic is Static for this program as its own agent.
func OwnStatic() bool {
	own, err := remote.Own("linux", runtime.GOARCH)
	return err == nil && own.Loader == ""
}

// set are agents by the names that cmd/agent/pack gives them.
type set map[string]*remote.Binary

// open reads of each agent what it is, once for all nodes, and the rest when one needs it.
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
