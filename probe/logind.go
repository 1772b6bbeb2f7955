package probe

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// removeIPC is whether systemd-logind removes a user's shared memory at the end
// of the last login: "yes", "no", or "" when there is no logind here.
func removeIPC(o options) string {
	installed := exists(o.at("/usr/lib/systemd/systemd-logind")) || exists(o.at("/lib/systemd/systemd-logind"))
	if !installed || !exists(o.at("/run/systemd/system")) { // the latter is sd_booted(3)
		return ""
	}
	setting, builtIn := "", ""
	for _, path := range logindFiles(o) {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		set, commented := parseRemoveIPC(string(text))
		setting, builtIn = cmp.Or(set, setting), cmp.Or(commented, builtIn)
	}
	return cmp.Or(setting, builtIn, "yes")
}

// logindFiles are the configuration files in the order logind reads them: the
// main file, then the drop-ins by name, of which the one in the first directory
// hides its namesakes (logind.conf(5)).
func logindFiles(o options) []string {
	var files []string
	for _, dir := range []string{"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd"} {
		if main := o.at(dir + "/logind.conf"); exists(main) {
			files = append(files, main)
			break
		}
	}
	dropIns := map[string]string{}
	for _, dir := range []string{"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd"} {
		found, _ := filepath.Glob(o.at(dir + "/logind.conf.d/*.conf")) // fails on a bad pattern only
		for _, path := range found {
			if name := filepath.Base(path); dropIns[name] == "" {
				dropIns[name] = path
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dropIns)) {
		files = append(files, dropIns[name])
	}
	return files
}

// parseRemoveIPC is what a file sets, and what the comment in the shipped file
// says was compiled in: Red Hat's is "no".
func parseRemoveIPC(text string) (set, commented string) {
	for row := range strings.Lines(text) {
		row = strings.TrimSpace(row)
		into := &set
		if rest, isComment := strings.CutPrefix(row, "#"); isComment {
			row, into = rest, &commented
		}
		key, value, _ := strings.Cut(row, "=")
		if strings.TrimSpace(key) != "RemoveIPC" {
			continue
		}
		switch strings.ToLower(strings.TrimSpace(value)) { // systemd's parse_boolean
		case "yes", "y", "true", "t", "on", "1":
			*into = "yes"
		case "no", "n", "false", "f", "off", "0":
			*into = "no"
		}
	}
	return set, commented
}
