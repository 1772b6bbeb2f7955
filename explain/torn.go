// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"regexp"
)

// seams are where ranks wrote into each other's lines: the prefix of one stands behind the text
// of another, and what was cut goes on somewhere else, if at all.
type seams struct {
	hosts map[string]bool // that NCCL's own lines began with
	rest  []byte          // of the line, from the seam on
}

// mostHosts bounds what is remembered of the names of hosts.
const mostHosts = 4096

var (
	// marks are how torch's prefix begins and that of DeepSpeed's logger, with the whole of it.
	marks = []struct {
		text   []byte
		prefix *regexp.Regexp
	}{
		{[]byte("[rank"), regexp.MustCompile(`^\[rank\d{1,6}\]:`)},
		{[]byte("[20"), regexp.MustCompile(`^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] \[[A-Z]`)},
	}
	ncclMark = []byte("] NCCL ")
	ncclSeam = regexp.MustCompile(`([\w.-]+):\d+:\d+ \[-?\d+\] NCCL `)
)

// longestMark is how long one of those prefixes may be.
const longestMark = 32

// apart is the line up to the first seam. The rest is the next line, of the same number.
func (s *seams) apart(text []byte) []byte {
	s.rest = nil
	at := len(text)
	for _, mark := range marks {
		for from := 1; from < at; {
			found := bytes.Index(text[from:at], mark.text)
			if found < 0 {
				break
			}
			from += found
			if ends(text[from-1]) && mark.prefix.Match(text[from:min(len(text), from+longestMark)]) {
				at = from
			}
			from++
		}
	}
	if nccl := bytes.Index(text, ncclMark); nccl >= 0 {
		at = min(at, s.nccl(text, nccl))
	}
	if at < len(text) {
		text, s.rest = text[:at], text[at:]
	}
	return text
}

// ends is whether a text may end so. Prefixes in their place stand behind others, which end otherwise.
func ends(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || digit(c) || bytes.IndexByte([]byte(".!?)'\"%]}"), c) >= 0
}

// nccl is where another process of NCCL began. Its host is known by the lines that began with
// it: what stands before may be glued to the name.
func (s *seams) nccl(text []byte, first int) int {
	if host, _, found := bytes.Cut(text[:first], []byte(":")); found && len(host) <= longestName && !s.hosts[string(host)] && len(s.hosts) < mostHosts && ncclSeam.Match(text[:min(len(text), first+len(ncclMark))]) {
		if s.hosts == nil {
			s.hosts = map[string]bool{}
		}
		s.hosts[string(host)] = true
	}
	if !bytes.Contains(text[first+len(ncclMark):], ncclMark) {
		return len(text)
	}
	for _, found := range ncclSeam.FindAllSubmatchIndex(text, 2) {
		for at := found[2]; at < found[3]; at++ {
			if at > 0 && s.hosts[string(text[at:found[3]])] {
				return at
			}
		}
	}
	return len(text)
}
