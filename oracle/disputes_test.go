// SPDX-License-Identifier: Apache-2.0

//go:build oracle

package oracle_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// equal reports whether two values are equal. A nil value equals an empty one.
func equal(want, got any) bool { return gocmp.Equal(want, got, cmpopts.EquateEmpty()) }

// difference returns the difference between two values. The kind is the first line of the
// difference.
func difference(what string, want, got any) (kind, diff string) {
	diff = gocmp.Diff(want, got, cmpopts.EquateEmpty())
	for line := range strings.Lines(diff) {
		if line[0] == '-' || line[0] == '+' {
			return what + ": " + strings.Join(strings.Fields(line[1:]), " "), diff
		}
	}
	return what, diff
}

// disputes maps kinds of disagreements to the smallest example of each kind.
type disputes map[string]*dispute

type dispute struct {
	kind  string
	count int
	size  int
	text  string
}

func (d disputes) add(kind string, c command, diff string) {
	kind = particulars.ReplaceAllString(kind, "…")
	command, _ := json.Marshal(c)
	one := d[kind]
	if one == nil {
		one = &dispute{kind: kind}
		d[kind] = one
	}
	one.count++
	if size := len(command); one.size == 0 || size < one.size {
		one.size = size
		files := ""
		for _, path := range slices.Sorted(maps.Keys(c.Files)) {
			files += fmt.Sprintf("  %s: %q\n", path, c.Files[path])
		}
		one.text = fmt.Sprintf("deepspeed %q\n  %q, %d × %s\n%s%s", c.Argv, c.Env, c.Devices, c.Accelerator, files, diff)
	}
}

// particulars matches details in which two disagreements of the same kind may differ.
var particulars = regexp.MustCompile(`'[^']*'|"[^"]*"|[0-9]+|\[[^\]]*\]|entries for .*, unable|bad entry: .*, unable`)

func (d disputes) sorted() []*dispute {
	byCount := func(a, b *dispute) int { return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.kind, b.kind)) }
	return slices.SortedFunc(maps.Values(d), byCount)
}

func (d *dispute) String() string {
	return fmt.Sprintf("%d times %s\n%s", d.count, d.kind, d.text)
}
