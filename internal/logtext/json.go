// SPDX-License-Identifier: Apache-2.0

package logtext

import (
	"bytes"
	"encoding/json"
)

// The fields in which log collectors put the parts of a line: fluentd's kubernetes filter, Docker's
// json-file driver, journald, Ray Train, structlog, and Python's and Go's JSON formatters.
var (
	jsonMessages = fields("log", "message", "msg", "MESSAGE", "event")
	jsonDetails  = fields("exc_info", "exception", "error", "err", "stack_trace", "traceback")
	jsonTimes    = fields("time", "timestamp", "@timestamp", "asctime")
	jsonNodes    = fields("pod_name", "podName", "pod", "node_name", "node", "hostname", "host")
	jsonRanks    = fields("rank", "global_rank", "world_rank")
	jsonLevels   = fields("level", "levelname", "severity")
)

// known numbers the names of all fields.
var known = map[string]int{}

const mostFields = 32

func fields(names ...string) (numbers []int) {
	for _, name := range names {
		numbers = append(numbers, len(known))
		known[name] = len(known)
	}
	return numbers
}

// values returns where the value of each known field begins, 0 if a line does not have the field.
func values(line []byte) (at [mostFields]int) {
	for i := 0; ; {
		name := bytes.Index(line[i:], []byte(`":`))
		if name < 0 {
			return at
		}
		name += i
		i = name + len(`":`)
		start := bytes.LastIndexByte(line[:name], '"') + 1
		if number, found := known[string(line[start:name])]; found && at[number] == 0 {
			at[number] = i
		}
	}
}

// FromJSON returns a line in JSON as a launcher would have written it: the time, the node and the
// rank, then the message, with carriage returns between its lines. It returns other text unchanged.
func FromJSON(text []byte) []byte {
	if !bytes.HasPrefix(text, []byte(`{"`)) {
		return text
	}
	var line []byte
	at := values(text)
	if time := field(text, at, jsonTimes); bytes.Count(time, []byte(":")) > 1 {
		line = append(append(line, time...), ' ')
	}
	if node := field(text, at, jsonNodes); len(node) > 0 {
		line = append(append(line, node...), " | "...)
	}
	if rank := field(text, at, jsonRanks); len(rank) > 0 {
		line = append(append(append(line, "[rank"...), rank...), "]: "...)
	}
	message := field(text, at, jsonMessages)
	if message == nil {
		return append(line, text...) // settings, or the numbers of a step
	}
	if line = append(line, message...); len(field(text, at, jsonLevels)) > 0 { // the level tells failures from remarks
		line = append(append(line, " level="...), field(text, at, jsonLevels)...)
	}
	if detail := field(text, at, jsonDetails); len(detail) > 0 {
		line = append(append(line, '\n'), detail...)
	}
	return bytes.ReplaceAll(bytes.TrimRight(line, "\r\n"), []byte("\n"), []byte("\r"))
}

// field returns the text or number of the first of several fields that a line has, or nil.
func field(line []byte, at [mostFields]int, fields []int) []byte {
	for _, number := range fields {
		if at[number] == 0 {
			continue
		}
		value := bytes.TrimLeft(line[at[number]:], " ")
		end := 0
		if len(value) == 0 || value[0] != '"' {
			for end < len(value) && digit(value[end]) {
				end++
			}
			if end > 0 {
				return value[:end]
			}
			continue
		}
		for end = 1; end < len(value) && value[end] != '"'; end++ {
			if value[end] == '\\' {
				end++
			}
		}
		if value = value[:min(end+1, len(value))]; bytes.IndexByte(value, '\\') < 0 {
			return bytes.Trim(value, `"`)
		}
		var plain string
		if json.Unmarshal(value, &plain) == nil {
			return []byte(plain)
		}
	}
	return nil
}
