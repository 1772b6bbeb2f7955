package probe

import (
	"os"
	"strconv"
	"strings"
)

// line is the first line of a small kernel file without the space around it,
// "" when the file is absent, unreadable or empty.
func line(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(first)
}

// number is the decimal integer a small kernel file holds; false when there is
// none, which includes "max".
func number(path string) (int64, bool) {
	n, err := strconv.ParseInt(line(path), 10, 64)
	return n, err == nil
}

// exists is whether something is there that we are allowed to see.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
