// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExpand: rows marked p were also given to pdsh 2.34 (-Q -w), and rows marked n to ClusterShell
// 1.9 (nodeset -e). The results were the same.
func TestExpand(t *testing.T) {
	for set, want := range map[string]string{
		"node1":                 "node1",                                       // p n
		"node[1-3]":             "node1 node2 node3",                           // p n
		"node[01-03,07]":        "node01 node02 node03 node07",                 // p n
		"node[08-11]":           "node08 node09 node10 node11",                 // p n
		"node[9-11]":            "node9 node10 node11",                         // p n
		"node[098-101]":         "node098 node099 node100 node101",             // p n
		"node[98-101]":          "node98 node99 node100 node101",               // p n
		"node[08-9]":            "node08 node09",                               // p
		"node[5]":               "node5",                                       // p n
		"node[0-10/3]":          "node0 node3 node6 node9",                     // n
		"node[01-09/4]":         "node01 node05 node09",                        // n
		"rack[0-1]node[1-2]":    "rack0node1 rack0node2 rack1node1 rack1node2", // p n
		"n[1-2]x[01-02]-ib":     "n1x01-ib n1x02-ib n2x01-ib n2x02-ib",         // p n
		"n[1-2][3-4]":           "n13 n14 n23 n24",                             // p
		"p[1-2]-ib.cluster":     "p1-ib.cluster p2-ib.cluster",                 // p n
		"10.0.0.[1-2]":          "10.0.0.1 10.0.0.2",                           // p n
		"user@node[1-2]":        "user@node1 user@node2",                       // n
		"a1,b[2-3],c-n04":       "a1 b2 b3 c-n04",                              // p n
		"n[1-2],n[2-3]":         "n1 n2 n2 n3",                                 // p
		"a, b\tc\n":             "a b c",                                       // p
		",a,,b,":                "a b",                                         // p
		"[fe80::1],fe80::2":     "[fe80::1] fe80::2",                           // addresses are names
		"u@[fe80::1]":           "u@[fe80::1]",                                 //
		"fe80::[1-2]":           "fe80::1 fe80::2",                             //
		"[1-2]":                 "1 2",                                         // p n
		"n[000000000000000007]": "n000000000000000007",                         //
	} {
		got, err := Expand(set)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("Expand(%q) = %q, %v; want %q", set, got, err, want)
		}
	}
}

func TestExpandRefuses(t *testing.T) {
	for set, want := range map[string]string{
		"":                               "names no host",
		" , ":                            "names no host",
		"n[":                             `"[" without "]"`,
		"n]":                             `"]" without "["`,
		"n[1-[2]]":                       "a bracket inside a bracket",
		"n[]":                            "is not a number",
		"n[1,]":                          "is not a number",
		"n[a-b]":                         "is not a number",
		"n[1-2-3]":                       "is not a number",
		"n[-1]":                          "is not a number",
		"n[1-9/0]":                       "is not a number",
		"n[1/2]":                         "is not a number",
		"n[1 - 2]":                       "is not a number",
		"n[1234567890123456789]":         "is not a number",
		"n[5-3]":                         "runs backwards",
		"n[1-010]":                       "different widths",
		"n[1-100001]":                    "more than 100000 hosts",
		"n[1-999999999999999999]":        "more than 100000 hosts",
		"n[0-400][0-400]":                "more than 100000 hosts",
		"n[1-99999],m[1-2]":              "more than 100000 hosts",
		"n[1-60000,1-60000]":             "more than 100000 hosts",
		"n[1-9][1-9999][1-9999][1-9999]": "more than 100000 hosts",
		"[fe80::x]":                      "neither a range nor an IPv6 address",
		"-node3":                         "operators",
		"^file":                          "operators",
		"/node/":                         "operators",
		"@gpu":                           "operators",
		"a[1-3]!a2":                      "operators",
	} {
		got, err := Expand(set)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Expand(%q) = %.40q, %v; want an error with %q", set, got, err, want)
		}
	}
	if names, err := Expand("n[1-100000]"); err != nil || len(names) != 100000 {
		t.Errorf("the largest set: %d names, %v", len(names), err)
	}
}

func TestFold(t *testing.T) {
	for _, c := range []struct{ names, want string }{
		{"", ""},
		{"w1", "w1"},
		{"head", "head"},
		{"w1 w2", "w[1-2]"},
		{"w1 w3", "w[1,3]"},
		{"node01 node02 node03 node07", "node[01-03,07]"},
		{"w3 w1 w2", "w[1-3]"},
		{"w2 w2 w1", "w[1-2]"},
		{"w9 w10 w11", "w[9-11]"},
		{"w09 w10 w11", "w[09-11]"},
		{"w098 w099 w100", "w[098-100]"},
		{"w98 w99 w100", "w[98-100]"},
		{"w08 w09 w100", "w[08-09,100]"},
		{"w99 w100 w098", "w[098,99-100]"},
		{"w1 w01 w2 w02", "w[1,01,2,02]"},
		{"w0 w1", "w[0-1]"},
		{"w00 w01", "w[00-01]"},
		{"gpu1 head gpu2", "gpu[1-2],head"},
		{"b1 a1 b2", "b[1-2],a1"},
		{"n1-ib n2-ib n3", "n[1-2]-ib,n3"},
		{"10.0.0.1 10.0.0.2 10.0.1.2", "10.0.0.[1-2],10.0.1.2"},
		// If a name has several numbers, Fold joins names by the number that varies most, or by the
		// last of several equal ones.
		{"r1n1 r1n2 r1n3 r2n1 r2n2 r2n3", "r1n[1-3],r2n[1-3]"},
		{"r1n1 r2n1 r3n1", "r[1-3]n1"},
		{"r1n1 r1n2 r2n1 r2n2", "r1n[1-2],r2n[1-2]"},
		{"node1.rack7 node2.rack7", "node[1-2].rack7"},
		// Fold keeps names that it cannot join.
		{"[fe80::1] [fe80::2]", "[fe80::1],[fe80::2]"},
		{"fe80::1 fe80::2", "fe80::[1-2]"},
		{"n[1-2] n1", "n[1-2],n1"},
		{"n1234567890123456789 n1234567890123456790", "n1234567890123456789,n1234567890123456790"},
	} {
		if got := Fold(strings.Fields(c.names)); got != c.want {
			t.Errorf("Fold(%s) = %s, want %s", c.names, got, c.want)
		}
	}
}

// TestFoldReadsBack checks that Expand(Fold(x)) is the same set as x. The order of x may change
// only the order of the items.
func TestFoldReadsBack(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	for range 2000 {
		var names []string
		for range 1 + random.IntN(12) {
			name := pick("n", "gpu-", "r1n", "u@", "10.0.", "") + fmt.Sprintf(pick("%d", "%02d", "%03d"), random.IntN(pick2(random, 4, 120))) +
				pick("", "-ib", ".5", fmt.Sprintf("x%d", random.IntN(3)))
			names = append(names, name)
		}
		folded := Fold(names)
		got, err := Expand(folded)
		if err != nil {
			t.Fatalf("Fold(%q) = %s: %v", names, folded, err)
		}
		slices.Sort(names)
		slices.Sort(got)
		if diff := cmp.Diff(slices.Compact(names), got); diff != "" {
			t.Fatalf("%s: (-want +got)\n%s", folded, diff)
		}
	}
}

func pick2(random *rand.Rand, a, b int) int { return []int{a, b}[random.IntN(2)] }

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"node[01-03,07]", "a[1-9/2],b", "r[0-1]n[1-2]-ib", "u@[fe80::1]:8", "[::1]", "n[1-999999999999999999]",
		"n[[", "n]", "a,,b ", "n[08-100]", "n[1-010]", "-x", "^f", "n[0-400][0-400]", "gpu7:4", "w[1,01,2,02]", "n[00000000000000000001]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, set string) {
		if hosts, err := ParseHosts(set); err == nil && len(hosts) == 0 {
			t.Fatalf("ParseHosts(%q): no host and no error", set)
		}
		names, err := Expand(set)
		if err != nil {
			return
		}
		if len(names) == 0 || len(names) > maxNames {
			t.Fatalf("Expand(%q): %d names", set, len(names))
		}
		again, err := Expand(Fold(names))
		if err != nil {
			t.Fatalf("Fold(%q) = %q: %v", names, Fold(names), err)
		}
		slices.Sort(names)
		slices.Sort(again)
		if diff := cmp.Diff(slices.Compact(names), again); diff != "" {
			t.Fatalf("%q: (-want +got)\n%s", set, diff)
		}
	})
}

func BenchmarkFold(b *testing.B) {
	names, err := Expand("rack[01-50]-node[001-200].cluster")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		Fold(names)
	}
}
