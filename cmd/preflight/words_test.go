// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// banned lists phrases that are hard to read for native speakers, each with a replacement. Upper
// and lower case count as the same.
var banned = []struct{ phrase, instead string }{
	{`behind (it|them|that|this|each|--|"--"|` + "`)", "after"},
	{`\bbesides?\b`, "next to, as well, apart from"},
	{`\banew\b`, "again"},
	{`\balike\b`, "the same"},
	{`\bthe like\b`, "name them"},
	{`\bwho(so)?ever\b`, "the person, the process, the node"},
	{`\bwho cannot\b`, "the nodes that fail"},
	{`\b(no|some)body\b`, "nothing, no process, a user"},
	{`\b(stand|stands|stood) in\b`, "is in"},
	{`\bsays? so\b`, "reports it"},
	{`\b(is|are) to (?:be )?(?:run|be|do|go|have|start|stop|use|read|take|give|get|see|find|call|listen|launch|train)\b`, "must"},
	{`\b(held?|holds) (it |them |each )?against\b`, "compare with"},
	{`\btak(e|es|en) (it |them )?for\b`, "treat as"},
	{`\blook(s|ed|ing)? at\b`, "check, read"},
	{`\b(come|comes|came) through\b`, "succeed"},
	{`\bnot to be had\b`, "unavailable"},
	{`\bbraked\b`, "throttled"},
	{`\b(is|are) of (no|one|two|a|the|another|each)\b`, "belongs to, has"},
}

// allowedPhrases lists texts that contain a banned phrase for a good reason.
var allowedPhrases = []string{
	"stand-in", "are of the same model",
}

var code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`|\\]\\([^)]*\\)")

// TestPlainWords searches everything that a user reads for banned phrases. It reads the pages,
// including the catalogues and help that are generated from the code, and the words of findings.
func TestPlainWords(t *testing.T) {
	texts := map[string]string{}
	for page, text := range pages(t) {
		if !strings.Contains(page, "zh-CN") && page != "CHANGELOG.md" {
			texts[page] = code.ReplaceAllStringFunc(text, func(c string) string { return strings.Repeat("\n", strings.Count(c, "\n")) })
		}
	}
	if len(texts) < 20 {
		t.Fatalf("only %d pages were read", len(texts))
	}
	findings := findingTexts(t)
	if len(findings) < 500 {
		t.Fatalf("only %d texts of findings were read", len(findings))
	}
	for place, text := range findings {
		texts[place] = text
	}
	for _, b := range banned {
		phrase := regexp.MustCompile("(?i)" + b.phrase)
		for place, text := range texts {
			for n, line := range strings.Split(text, "\n") {
				found := phrase.FindString(line)
				if found == "" || isAllowed(line) {
					continue
				}
				t.Errorf("%s:%d: %q (write: %s) in: %.160s", place, n+1, found, b.instead, strings.TrimSpace(line))
			}
		}
	}
}

func isAllowed(line string) bool {
	for _, a := range allowedPhrases {
		if strings.Contains(line, a) {
			return true
		}
	}
	return false
}

// findingTexts returns the text of every Summary, Got and Want in the code of the checks, by its
// place in the code.
func findingTexts(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir("../../checks", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		tree, err := parser.ParseFile(files, path, source, 0)
		if err != nil {
			return err
		}
		ast.Inspect(tree, func(node ast.Node) bool {
			pair, isPair := node.(*ast.KeyValueExpr)
			if !isPair {
				return true
			}
			key, isName := pair.Key.(*ast.Ident)
			if !isName || key.Name != "Summary" && key.Name != "Got" && key.Name != "Want" {
				return true
			}
			ast.Inspect(pair.Value, func(value ast.Node) bool {
				if literal, is := value.(*ast.BasicLit); is && literal.Kind == token.STRING {
					words, _ := strconv.Unquote(literal.Value)
					texts[files.Position(literal.Pos()).String()] = words
				}
				return true
			})
			return false
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
