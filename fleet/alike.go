// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"crypto/sha256"
	"encoding/json"
	"io"
	"sync"

	faster "github.com/go-json-experiment/json" // needs less than half the time of encoding/json; most of the JSON to decode comes from nodes

	"preflight/agent"
	"preflight/facts"
)

// alike decodes sections. If several nodes sent a section as the same bytes, alike keeps one copy
// for all of them. Machines that were set up together report mostly the same sections. Nodes share
// such a section, so code that changes it for one node must replace it and not write into it.
type alike struct {
	mu       sync.RWMutex
	sections map[[sha256.Size]byte]*agent.Probed
}

// decode returns what a node reported about a section. The caller must not change the result.
func (a *alike) decode(section facts.Section, body json.RawMessage) (*agent.Probed, error) {
	key := [sha256.Size]byte{}
	hash := sha256.New()
	_, _ = io.WriteString(hash, string(section)+" ")
	_, _ = hash.Write(body)
	hash.Sum(key[:0])
	a.mu.RLock()
	known := a.sections[key]
	a.mu.RUnlock()
	if known != nil {
		return known, nil
	}
	var answer agent.Probed
	if err := faster.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sections == nil {
		a.sections = map[[sha256.Size]byte]*agent.Probed{}
	}
	a.sections[key] = &answer
	return &answer, nil
}
