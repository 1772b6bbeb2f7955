package hostfile

import (
	"fmt"
	"strings"
)

// olderEntry splits a stripped line as DeepSpeed before v0.8.0 did: two words,
// the second of them KEY=NUMBER, whatever the key. It says what Python would of
// any other line.
//
// Source: deepspeed/launcher/runner.py, fetch_hostfile, v0.6.0 to v0.7.7.
func olderEntry(line string) (name, digits, said string) {
	words := strings.FieldsFunc(line, pySpace)
	if len(words) != 2 {
		return "", "", pyUnpack(len(words))
	}
	pair := strings.Split(words[1], "=")
	if len(pair) != 2 {
		return "", "", pyUnpack(len(pair))
	}
	digits, ok := PythonInt(pair[1])
	if !ok {
		return "", "", pyNoNumber(pair[1])
	}
	return words[0], digits, ""
}

// olderWayOut says what is wrong with a line that was no entry before v0.8.0.
func olderWayOut(line string) string {
	if _, _, _, ok := entry(line); ok {
		return fmt.Sprintf(`DeepSpeed before 0.8.0 takes nothing behind "slots=N", not even a comment: take it out of %q`, line)
	}
	if strings.HasPrefix(line, "#") {
		return "DeepSpeed before 0.8.0 knows no comments: remove the line"
	}
	return wayOut(line)
}
