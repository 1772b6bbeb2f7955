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
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"preflight/remote"
)

//go:embed carried
var embedded embed.FS

var own = sync.OnceValue(func() set {
	carried, err := fs.Sub(embedded, "carried")
	if err != nil {
		panic(err) // the name is valid
	}
	return set{carried}
})

// Open returns what to send to nodes of a platform, the one to prefer first: the dynamic
// agent can ask NVIDIA's driver, and the static one behind it starts where there is no
// glibc. The error wraps os.ErrNotExist when there is none, and says how to build it.
func Open(goos, arch string) ([]*remote.Binary, error) { return own().open(goos, arch) }

// set is a directory of agents, as cmd/agent/pack makes them.
type set struct{ files fs.FS }

func (s set) open(goos, arch string) (found []*remote.Binary, err error) {
	for _, kind := range []string{"", "-static"} {
		name := goos + "-" + arch + kind + ".gz"
		packed, err := fs.ReadFile(s.files, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		one, err := remote.Packed(packed)
		if err != nil {
			return nil, fmt.Errorf("the agent %s in this preflight: %w", name, err)
		}
		found = append(found, one)
	}
	if len(found) > 0 {
		return found, nil
	}
	if all, err := fs.Glob(s.files, "*.gz"); err != nil || len(all) > 0 {
		return nil, errors.Join(err, remote.NoBinary(goos, arch))
	}
	return remote.Own(goos, arch)
}
