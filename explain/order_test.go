// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/csv"
	"os"
	"slices"
	"testing"
)

// exampleOf returns a message about a cause that is no consequence, or "".
func exampleOf(c *Catalogue, cause string) string {
	for _, family := range c.Families {
		for _, s := range family.Signatures {
			if s.Cause != cause || s.Kind != Proof && s.Kind != Symptom || s.Retried || s.Differs != "" {
				continue
			}
			for _, example := range s.Examples {
				r := c.Explain([]Source{read("log", example+"\n")})
				if len(r.Causes) == 1 && r.Causes[0].Cause == cause && len(r.Consequences) == 0 {
					return example
				}
			}
		}
	}
	return ""
}

// TestExplains checks for each cause that it is the root of what it explains, in either order.
func TestExplains(t *testing.T) {
	c := signatures(t)
	tried := 0
	for _, cause := range c.Causes {
		root := exampleOf(c, cause.ID)
		for _, id := range cause.Explains {
			follows := exampleOf(c, id)
			if id == string(Program) {
				follows = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: gave up"
			}
			if root == "" || follows == "" {
				continue
			}
			for _, log := range []string{root + "\n" + follows + "\n", follows + "\n" + root + "\n"} {
				tried++
				if r := c.Explain([]Source{read("log", log)}); len(r.Causes) == 0 || r.Causes[0].Cause != cause.ID {
					t.Errorf("%s explains %s, but %q: %s", cause.ID, id, log, short(r.Causes))
				}
			}
		}
	}
	if tried < 60 {
		t.Errorf("only %d pairs were tried", tried)
	}
}

// TestOrderInCorpora checks, for each pair of causes in a labelled log, that the known root is not
// said to follow from the other.
func TestOrderInCorpora(t *testing.T) {
	c := signatures(t)
	pairs := map[[2]string]bool{}
	for _, corpus := range []string{"testdata/", "testdata/field/"} {
		file, err := os.Open(corpus + "labels.tsv")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		reader := csv.NewReader(file)
		reader.Comma, reader.LazyQuotes, reader.FieldsPerRecord = '\t', true, -1
		rows, err := reader.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows[1:] {
			text, err := os.ReadFile(corpus + "logs/" + row[0])
			if err != nil {
				t.Fatal(err)
			}
			r := c.Explain([]Source{read("log", string(text))})
			for _, f := range slices.Concat(r.Causes, r.Consequences) {
				if f.Cause == "" || f.Cause == row[1] || c.causes[row[1]] == nil {
					continue
				}
				pairs[[2]string{row[1], f.Cause}] = true
				if c.leadsTo(f.Cause, row[1], nil) && (len(r.Causes) == 0 || r.Causes[0].Cause != row[1]) {
					t.Errorf("%s: %s is the root, and %s is said to explain it", row[0], row[1], f.Cause)
				}
			}
		}
	}
	if len(pairs) < 30 {
		t.Errorf("only %d pairs", len(pairs))
	}
	t.Log(len(pairs), "pairs")
}
