// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"preflight/facts"
	"preflight/probe/machine"
)

// docker is what Docker's configuration says of the subnets of its networks, nil where that
// cannot be read or is none.
func docker(o machine.Options) *facts.Docker {
	text, err := os.ReadFile(o.At("/etc/docker/daemon.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return &facts.Docker{}
	}
	var said struct {
		Pools []facts.AddressPool `json:"default-address-pools"`
	}
	if err != nil || json.Unmarshal(text, &said) != nil {
		return nil
	}
	return &facts.Docker{Pools: said.Pools}
}
