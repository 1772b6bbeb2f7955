// SPDX-License-Identifier: Apache-2.0

// Package flight reads what torch's flight recorder wrote on each rank, and says of several
// ranks' dumps who is missing from a collective, who made another call, and who has not finished
// what others have. One dump tells of one rank; only beside the others it tells who is at fault.
//
// Source: torch 2.15, torch/csrc/distributed/c10d/FlightRecorder.hpp and FlightRecorderDetail.hpp
// (version 2.10 of the dump; its fields since 2.0 are the same ones, and more of them), which are
// written by torch/csrc/jit/serialization/pickler.cpp, or as JSON.
package flight

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"preflight/pickle"
)

// Dump is what one rank recorded: its last calls, the oldest first.
type Dump struct {
	Name    string // of the file
	Rank    int
	Version string
	Groups  map[string][]int // the ranks of each group of this rank
	Calls   []Call
}

// Call is one entry of the recorder.
type Call struct {
	Record   int // from 1, in the dump
	Group    string
	Desc     string
	Number   int64 // of the collectives of a group, or of its calls between two ranks
	Op       string
	Between  bool // of two ranks, as send and recv are
	Shape    string
	Elements int64 // of the input
	Type     string
	State    string // scheduled, started or completed
	Vague    bool   // a recorder that is not told when a call ends has dropped it
	At       int64  // when it was made, in nanoseconds
	From     string // the frame of the program that made it
}

// Is is whether a file that begins so is such a dump.
func Is(start []byte) bool {
	switch {
	case bytes.HasPrefix(start, []byte("\x80")):
		return bytes.Contains(start, []byte("pg_config")) || bytes.Contains(start, []byte("pg_id"))
	case bytes.HasPrefix(bytes.TrimLeft(start, " \r\n\t"), []byte("{")):
		return bytes.Contains(start, []byte(`"pg_config"`)) || bytes.Contains(start, []byte(`"collective_seq_id"`)) ||
			bytes.Contains(start, []byte(`"comm_lib_version"`))
	}
	return false
}

// Most is the longest dump that is read: the 2,000 calls that a rank keeps take less than one MB.
const Most = 64 << 20

const (
	mostCalls   = 200_000
	mostTensors = 64
	mostFrames  = 64
)

// ErrNoDump is a file that is no dump of a flight recorder.
var ErrNoDump = errors.New("not a dump of torch's flight recorder")

// ofRank is how a file tells whose dump it is, which the dump itself does not.
var ofRank = regexp.MustCompile(`(\d+)(?:\.[A-Za-z]\w*)*$`)

// Read reads a dump, a pickle or JSON, from a file of that name.
func Read(name string, text []byte) (Dump, error) {
	var whole any
	var err error
	if bytes.HasPrefix(text, []byte("\x80")) {
		whole, err = pickle.Read(text)
	} else {
		err = json.Unmarshal(text, &whole)
	}
	if err != nil {
		return Dump{}, fmt.Errorf("%w: %w", ErrNoDump, err)
	}
	d := Dump{Name: name, Groups: map[string][]int{}}
	if d.Version, _ = field(whole, "version").(string); d.Version == "" {
		return Dump{}, ErrNoDump
	}
	found := ofRank.FindStringSubmatch(path.Base(name))
	if found == nil {
		return Dump{}, errors.New("a dump of torch's flight recorder, and which rank's is told only by its name, as in nccl_trace_rank_3")
	}
	if d.Rank, err = strconv.Atoi(found[1]); err != nil {
		return Dump{}, fmt.Errorf("rank %s: %w", found[1], strconv.ErrRange)
	}
	d.groups(field(whole, "pg_config"))
	for i, entry := range items(field(whole, "entries")) {
		if i < mostCalls {
			d.Calls = append(d.Calls, call(i+1, entry))
		}
	}
	return d, nil
}

// groups reads {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}, …}.
func (d *Dump) groups(config any) {
	for _, name := range names(config) {
		ranks, _ := field(field(config, name), "ranks").(string)
		for _, one := range strings.FieldsFunc(ranks, func(r rune) bool { return r < '0' || r > '9' }) {
			if rank, err := strconv.Atoi(one); err == nil {
				d.Groups[name] = append(d.Groups[name], rank)
			}
		}
	}
}

func call(record int, entry any) Call {
	c := Call{Record: record, Number: number(field(entry, "collective_seq_id")), At: number(field(entry, "time_created_ns"))}
	if field(entry, "collective_seq_id") == nil { // before 2.0
		c.Number = number(field(entry, "seq_id"))
	}
	if c.Between, _ = field(entry, "is_p2p").(bool); c.Between {
		c.Number = number(field(entry, "p2p_seq_id"))
	}
	if group := items(field(entry, "process_group")); len(group) == 2 {
		c.Group, _ = group[0].(string)
		c.Desc, _ = group[1].(string)
	} else {
		c.Group = strconv.FormatInt(number(field(entry, "pg_id")), 10)
	}
	name, _ := field(entry, "profiling_name").(string)
	library := ""
	if at := strings.LastIndexByte(name, ':'); at >= 0 {
		library, name = name[:at], name[at+1:]
	}
	c.Op = name
	c.Shape, c.Elements = sizes(field(entry, "input_sizes"))
	for _, dtype := range items(field(entry, "input_dtypes")) {
		c.Type, _ = dtype.(string)
	}
	c.State, _ = field(entry, "state").(string)
	// A backend without a hook for the end of a call has it dropped as soon as it is made
	// (FlightRecorderHook.hpp). NCCL's own drops it when it has ended or timed out.
	retired, _ := field(entry, "retired").(bool)
	c.Vague = retired && c.State == "scheduled" && !strings.Contains(library, "ccl")
	c.From = from(field(entry, "frames"))
	return c
}

// sizes are those of all tensors: [[4, 2], [8]] are 16 elements.
func sizes(of any) (shape string, elements int64) {
	var all []string
	for i, tensor := range items(of) {
		if i >= mostTensors {
			break
		}
		var dims []string
		product := int64(1)
		for j, dim := range items(tensor) {
			if j >= mostTensors {
				break
			}
			product *= number(dim)
			dims = append(dims, strconv.FormatInt(number(dim), 10))
		}
		elements += product
		all = append(all, "["+strings.Join(dims, ", ")+"]")
	}
	return strings.Join(all, " "), elements
}

// from is the frame of the program: the innermost that is not torch's own.
func from(frames any) string {
	for i, frame := range items(frames) {
		if i >= mostFrames {
			break
		}
		file, _ := field(frame, "filename").(string)
		if file == "" || strings.Contains(file, "/torch/") || strings.HasPrefix(file, "torch/") || file == "??" {
			continue
		}
		function, _ := field(frame, "name").(string)
		return fmt.Sprintf("%s:%d in %s", path.Base(file), number(field(frame, "line")), cmp.Or(function, "?"))
	}
	return ""
}

// What JSON and pickles have in common.

func field(of any, name string) any {
	switch o := of.(type) {
	case map[string]any:
		return o[name]
	case *pickle.Object:
		return o.Field(name)
	}
	return nil
}

func names(of any) []string {
	var all []string
	switch o := of.(type) {
	case map[string]any:
		for name := range o {
			all = append(all, name)
		}
	case *pickle.Object:
		for _, key := range o.Keys {
			if name, is := key.(string); is {
				all = append(all, name)
			}
		}
	}
	return all
}

func items(of any) []any {
	switch o := of.(type) {
	case []any:
		return o
	case *pickle.Object:
		return o.Keys
	}
	return nil
}

func number(of any) int64 {
	switch n := of.(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}
