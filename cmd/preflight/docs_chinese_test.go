// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestChineseREADME tests that both READMEs have the same number of sections, and that the Chinese
// README has every command of the English one.
func TestChineseREADME(t *testing.T) {
	all := pages(t)
	english, chinese := all["README.md"], all["README.zh-CN.md"]
	sections := regexp.MustCompile(`(?m)^## .+$`)
	if en, zh := sections.FindAllString(english, -1), sections.FindAllString(chinese, -1); len(en) != len(zh) {
		t.Errorf("README.md has the sections %q, README.zh-CN.md %q", en, zh)
	}
	known := typedCommands(chinese)
	for _, command := range typedCommands(english) {
		if !slices.Contains(known, command) {
			t.Errorf("README.zh-CN.md lacks `%s`", command)
		}
	}
}

// typedCommands returns the commands in the shell blocks and tables of a page, without remarks.
func typedCommands(page string) (lines []string) {
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			command, _, _ := strings.Cut(line, " #")
			lines = append(lines, strings.TrimSpace(command))
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| .* \\| `([^`]+)` \\|$").FindAllStringSubmatch(page, -1) {
		lines = append(lines, row[1])
	}
	return lines
}
