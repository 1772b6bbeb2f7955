// SPDX-License-Identifier: Apache-2.0

package dsconfig

import (
	"bytes"
	_ "embed"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed deepspeed.yaml
var deepspeed []byte

// table is the content of deepspeed.yaml. The comments in that file explain the fields.
type table struct {
	Settings        []setting
	Removed         []removedSetting
	Optimizers      []optimizer
	TorchOptimizers []string `yaml:"torch_optimizers"`
}

type setting struct {
	Name         string
	Is           kind
	Holds        *section
	None         bool
	Field        string
	Since, Until string
}

type section struct {
	Settings      []setting
	Model, Strict string
	Monitor       bool
}

type removedSetting struct {
	Section, Name string
	Since         string
	Says          string
}

type optimizer struct {
	Name         string
	Since, Until string
	Op           string
	CPUOp        string `yaml:"cpu_op"`
	Zero         string
	Refuses      string
}

// tables returns the content of deepspeed.yaml.
var tables = sync.OnceValue(func() (all table) {
	decoder := yaml.NewDecoder(bytes.NewReader(deepspeed))
	decoder.KnownFields(true)
	if err := decoder.Decode(&all); err != nil {
		panic("launch/dsconfig: " + err.Error())
	}
	all.Settings = eachAlone(all.Settings)
	return all
})

// eachAlone splits rows that have several names into one row per name.
func eachAlone(rows []setting) (settings []setting) {
	for _, row := range rows {
		if row.Holds != nil {
			row.Holds.Settings = eachAlone(row.Holds.Settings)
		}
		for name := range strings.FieldsSeq(row.Name) {
			row.Name = name
			settings = append(settings, row)
		}
	}
	return settings
}

// sectionNamed returns the top-level section with this name.
func sectionNamed(name string) *section {
	all := tables().Settings
	return all[slices.IndexFunc(all, func(s setting) bool { return s.Name == name })].Holds
}

// batchKeys lists the three batch sizes. Any two of them determine the third.
var batchKeys = []string{"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}
