// SPDX-License-Identifier: Apache-2.0

// Command pack compresses the agents in a directory, and writes the overlay with which a build
// embeds them in preflight:
//
//	go run ./cmd/agent/pack DIRECTORY
//	go build -overlay DIRECTORY/overlay.json ./cmd/preflight
//
// It refuses files that are not programs for Linux. With the same Go release, the same agent always
// gives the same bytes.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"preflight/remote"
)

// carried is the directory that package agents embeds.
const carried = "cmd/preflight/internal/agents/carried"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pack DIRECTORY, with agents named linux-ARCH")
		os.Exit(2)
	}
	if err := pack(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func pack(dir string) error {
	agents, err := filepath.Glob(filepath.Join(dir, "linux-*"))
	if err != nil {
		return err
	}
	over, err := filepath.Abs(carried)
	if err != nil {
		return err
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	var all errgroup.Group
	for _, agent := range agents {
		packed := agent + ".gz"
		overlay.Replace[filepath.Join(over, filepath.Base(packed))] = packed
		all.Go(func() error {
			text, err := remote.Pack(agent)
			if err != nil {
				return err
			}
			return os.WriteFile(packed, text, 0o644)
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(overlay, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), append(text, '\n'), 0o644)
}
