// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"bytes"
	_ "embed"
	"sync"

	"go.yaml.in/yaml/v3"

	"preflight/checks"
	"preflight/checks/fix"
)

//go:embed failures.yaml
var failuresFile []byte

// failureTable is the content of failures.yaml.
type failureTable struct {
	Commands  map[string]fix.Command        // the commands by name
	Checks    map[string]map[string]failure // failures by the check that fails, then by the cause
	ByStage   map[string]failure            `yaml:"by_stage"` // failures by the cause; the stage of the login decides which check fails
	Carriers  map[string]map[string]failure // failures by the carrier, then by the cause
	AllSilent failure                       `yaml:"all_silent"`
}

// failure describes one way in which preflight can fail to reach a node. The head of failures.yaml
// explains the fields.
type failure struct {
	Verdict  checks.Verdict
	Blames   blame
	Summary  string
	Got      string
	Want     string
	NoPlace  bool `yaml:"no_place"`
	Installs bool
	Fix      []fix.Command
	WouldSee string `yaml:"would_see"`
}

// failures returns the content of failures.yaml. The file is parsed on first use.
var failures = sync.OnceValue(func() (table failureTable) {
	decoder := yaml.NewDecoder(bytes.NewReader(failuresFile))
	decoder.KnownFields(true)
	if err := decoder.Decode(&table); err != nil {
		panic("checks/ssh: failures.yaml: " + err.Error())
	}
	return table
})
