// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
)

//go:embed */*.md
var textFiles embed.FS

// Text is the documentation of a check.
type Text struct {
	Title    string // completes the sentence "Passes when …"
	Parts    []Part // the sections, in the order of Headings
	WouldSee string // the message with which training would have failed
}

// Part is one section of the documentation of a check.
type Part struct {
	Heading string // one of Headings
	Body    string // Markdown, each paragraph and each list item on one line
}

// Headings lists the sections that the page of a check may have. Only Settings may be missing.
var Headings = []string{"Checks", "Fails or warns when", "Fix", "Settings"}

// textMarks holds the texts before and after the ID, the title, the parts and the would-see block
// of a page.
var textMarks = []string{"# ", "\n\nPasses when ", ".\n\n", "\n\n## Would see\n\n```text\n", "\n```\n"}

// texts returns the text of every check by its ID. The pages are parsed on first use.
var texts = sync.OnceValue(func() map[string]Text {
	files, err := fs.Glob(textFiles, "*/*.md")
	if err != nil {
		panic("checks: " + err.Error())
	}
	all := map[string]Text{}
	for _, file := range files {
		content, err := textFiles.ReadFile(file)
		if err != nil {
			panic("checks: " + err.Error())
		}
		id, text, err := parseText(string(content))
		if err != nil {
			panic(fmt.Sprintf("checks: %s: %v", file, err))
		}
		all[id] = text
	}
	return all
})

// parseText parses the page of a check and returns the check's ID with the text.
func parseText(page string) (id string, t Text, err error) {
	var pieces []string
	rest := page
	for _, mark := range textMarks {
		piece, after, found := strings.Cut(rest, mark)
		if !found {
			return "", Text{}, fmt.Errorf("no %q", mark)
		}
		pieces, rest = append(pieces, piece), after
	}
	if rest != "" {
		return "", Text{}, fmt.Errorf("text after the would-see block: %q", rest)
	}
	t = Text{Title: unwrap(pieces[2]), WouldSee: pieces[4]}
	next := 0 // index of the first of Headings that may still come
	sections := strings.Split("\n\n"+pieces[3], "\n\n## ")
	if sections[0] != "" {
		return "", Text{}, fmt.Errorf("text before the first heading: %q", sections[0])
	}
	for _, section := range sections[1:] {
		heading, body, _ := strings.Cut(section, "\n\n")
		at := slices.Index(Headings[next:], heading)
		if at < 0 {
			return "", Text{}, fmt.Errorf("the heading %q is unknown or out of order", heading)
		}
		if next += at + 1; body == "" {
			return "", Text{}, fmt.Errorf("nothing below the heading %q", heading)
		}
		t.Parts = append(t.Parts, Part{heading, unwrap(body)})
	}
	return pieces[1], t, nil
}

// unwrap returns the Markdown text with each paragraph and each list item joined into one line.
func unwrap(markdown string) string {
	var out strings.Builder
	for i, line := range strings.Split(markdown, "\n") {
		switch {
		case i == 0:
		case line == "", strings.HasPrefix(line, "- "), strings.HasSuffix(out.String(), "\n"):
			out.WriteByte('\n')
		default:
			out.WriteByte(' ')
		}
		out.WriteString(strings.TrimSpace(line))
	}
	return out.String()
}

// Text returns the documentation of the check, or the zero Text if there is none.
func (c Check) Text() Text { return texts()[c.ID] }
