// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"
)

//go:embed */*.md
var textFiles embed.FS

// Text is what people read about a check.
type Text struct {
	Title    string // what is true when the check passes
	Doc      string // one paragraph: what the check reads, and why it matters
	WouldSee string // the message that training would have ended with
}

// textMarks stand around the ID, the title, the doc and would see in a text file.
var textMarks = []string{"# ", "\n\nPasses when ", ".\n\n", "\n\n## Would see\n\n```text\n", "\n```\n"}

// texts holds the text of every check by its ID. The files are read when the first text is needed.
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
		var parts []string
		rest := string(content)
		for _, mark := range textMarks {
			part, after, found := strings.Cut(rest, mark)
			if !found {
				panic(fmt.Sprintf("checks: %s lacks %q", file, mark))
			}
			parts, rest = append(parts, part), after
		}
		if rest != "" {
			panic(fmt.Sprintf("checks: %s goes on after would see: %q", file, rest))
		}
		all[parts[1]] = Text{Title: unwrap(parts[2]), Doc: unwrap(parts[3]), WouldSee: parts[4]}
	}
	return all
})

// unwrap returns a paragraph as one line.
func unwrap(paragraph string) string { return strings.ReplaceAll(paragraph, "\n", " ") }

// Text returns what FAMILY/ID.md says of the check, and the zero Text where there is no such file.
func (c Check) Text() Text { return texts()[c.ID] }
