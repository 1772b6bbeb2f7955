package launch

import (
	"fmt"
	"strings"

	"github.com/agnivade/levenshtein"
)

// unknownKeys are what DeepSpeed silently ignores: a spelling mistake as
// a rule, or a key of another release. Keys that look like comments are meant so.
func (r *configReader) unknownKeys() {
	r.readOver(&topLevel, r.root, "")
	for _, top := range topLevel.settings {
		below := r.root.object(top.name)
		if below != nil && top.kind.below != nil && r.knows(top) && !r.isStrict(top.kind.below) {
			r.readOver(top.kind.below, below, top.name+".")
		}
	}
}

func (r *configReader) readOver(s *section, o *object, at string) {
	for _, name := range o.names {
		if !r.takesIn(s, name) && !r.failed(at+name) && !isComment(name) {
			r.ignored(at+name, "%s: %s, and silently ignores it", at+name, r.unknown(s, name))
		}
	}
}

func isComment(name string) bool {
	return strings.HasPrefix(name, "_") || strings.HasPrefix(name, "#") || strings.HasPrefix(name, "//") || strings.Contains(strings.ToLower(name), "comment")
}

func (r *configReader) takesIn(s *section, name string) bool {
	for _, setting := range s.settings {
		if (setting.name == name || setting.field == name) && r.knows(setting) {
			return true
		}
	}
	return false
}

// unknown says of a key that the release does not know which other release does,
// or which key may be meant.
func (r *configReader) unknown(s *section, name string) string {
	release := "DeepSpeed " + r.release
	if r.release == "" {
		release = "the newest DeepSpeed"
	}
	nearest, least := "", max(2, len(name)/4)+1
	for _, setting := range s.settings {
		switch {
		case setting.name == name && setting.since != "" && !r.since(setting.since):
			return fmt.Sprintf("%s does not know it, which came with %s", release, setting.since)
		case setting.name == name && setting.until != "":
			return fmt.Sprintf("%s does not know it, which went with %s", release, setting.until)
		case !r.knows(setting):
			continue
		}
		for _, known := range []string{setting.name, setting.field} {
			if distance := levenshtein.ComputeDistance(name, known); known != "" && distance < least {
				nearest, least = known, distance
			}
		}
	}
	if nearest == "" {
		return release + " does not know it"
	}
	return fmt.Sprintf("%s does not know it: is %q meant?", release, nearest)
}
