// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// preflight has its own parser. kevinburke/ssh_config (v1.6) refuses a file with `Match exec` or
// with two criteria in one Match. It applies an Include inside a Host block to every host, and has
// no final pass. Each of these would make preflight reach a node in another way than the launch's
// ssh.
//
// The grammar is that of OpenSSH's readconf.c and misc.c (9.2 to 10.0).

// maxIncludeDepth is READCONF_MAX_DEPTH of OpenSSH's readconf.c.
const maxIncludeDepth = 16

// directive is one keyword of an ssh configuration with its arguments.
type directive struct {
	file     string
	line     int
	keyword  string   // in lower case; an old spelling is replaced by the new one
	args     []string // without their quotes
	rest     string   // the arguments as written, for keywords whose value is the rest of the line
	included []configFile
}

func (d directive) where() string { return fmt.Sprintf("%s:%d", d.file, d.line) }

// configFile lists one file's directives in order, including Host and Match.
type configFile []directive

// configFiles is the whole configuration: the user's file, which has precedence, then the system's.
type configFiles struct {
	files []configFile
	// unknown lists keywords that no known OpenSSH release has, with their positions.
	unknown []string
}

// readConfig parses both files with everything that they include. A missing file counts as empty,
// as it does for ssh.
func readConfig(user, system, home string) (configFiles, error) {
	var c configFiles
	for _, r := range []configReader{
		{base: filepath.Join(home, ".ssh"), home: home, private: true},
		{base: filepath.Dir(system), home: home},
	} {
		path := system
		if r.private {
			path = user
		}
		file, err := r.read(path, 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return configFiles{}, err
		}
		c.files = append(c.files, file)
		c.unknown = append(c.unknown, r.unknown...)
	}
	return c, nil
}

// configReader reads the user's configuration or the system's.
type configReader struct {
	base    string // directory for relative Include paths
	home    string
	private bool // refuse files that other users may write
	ignore  []string
	unknown []string
}

func (r *configReader) read(path string, depth int) (configFile, error) {
	if depth > maxIncludeDepth {
		return nil, fmt.Errorf("%s: too many recursive includes (ssh stops at %d): remove the Include that leads back to this file", path, maxIncludeDepth)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w: ssh would ignore the file and its settings: run chmod u+r %s as its owner", err, path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if r.private && !trusted(info) {
		return nil, fmt.Errorf("%s: bad owner or permissions, so ssh refuses to start: chmod go-w %s", path, path)
	}
	return r.parse(f, path, depth)
}

// trusted applies the rule of read_config_file_depth. The file must be owned by root or by this
// user, and no other user may write it.
func trusted(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if ok && owner.Uid != 0 && int(owner.Uid) != os.Getuid() {
		return false
	}
	return info.Mode().Perm()&0o022 == 0
}

func (r *configReader) parse(text io.Reader, path string, depth int) (configFile, error) {
	var file configFile
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		d, err := splitLine(lines.Text())
		if err == nil && d.keyword != "" {
			d.file, d.line = path, number
			err = r.complete(&d, depth)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		if d.keyword != "" {
			file = append(file, d)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

// complete checks the parts of a directive that do not depend on the host, and follows an Include.
func (r *configReader) complete(d *directive, depth int) error {
	if name, old := synonyms[d.keyword]; old {
		d.keyword = name
	}
	switch {
	case d.keyword == "include":
		for _, pattern := range d.args {
			if err := r.include(d, pattern, depth); err != nil {
				return err
			}
		}
	case d.keyword == "ignoreunknown":
		r.ignore = append(r.ignore, strings.ToLower(d.args[0]))
	case d.keyword == "port":
		if _, err := parsePort(d.args[0]); err != nil {
			return err
		}
	case d.keyword == "connecttimeout":
		if _, err := parseSeconds(d.args[0]); err != nil {
			return err
		}
	case !slices.Contains(keywords, d.keyword):
		ignored := slices.ContainsFunc(r.ignore, func(list string) bool { return matchList(d.keyword, list) })
		if !ignored {
			r.unknown = append(r.unknown, fmt.Sprintf("%s: keyword %q", d.where(), d.keyword))
		}
	}
	if slices.Contains(oneArgument, d.keyword) && len(d.args) > 1 {
		return fmt.Errorf("%s takes one argument, not %d: ssh refuses to start", d.keyword, len(d.args))
	}
	return nil
}

// include adds the files that match a pattern to d. A pattern without matches is no error, and
// neither is a file that cannot be opened.
func (r *configReader) include(d *directive, pattern string, depth int) error {
	if rest, ok := strings.CutPrefix(pattern, "~/"); ok && r.private {
		pattern = filepath.Join(r.home, rest)
	} else if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(r.base, pattern)
	}
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return fmt.Errorf("include %s: %w", pattern, err)
	}
	for _, path := range paths {
		file, err := r.read(path, depth+1)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return err
		}
		d.included = append(d.included, file)
	}
	return nil
}

// splitLine parses a line as strdelim and argv_split of OpenSSH's misc.c do. For an empty line or a
// comment it returns a directive without a keyword.
func splitLine(line string) (directive, error) {
	line = strings.TrimRight(line, " \t\r\n\f")
	line = strings.TrimLeft(line, " \t\r")
	if line == "" || line[0] == '#' {
		return directive{}, nil
	}
	var keyword, rest string
	if quoted, ok := strings.CutPrefix(line, `"`); ok {
		if keyword, rest, ok = strings.Cut(quoted, `"`); !ok {
			return directive{}, errors.New("a quote is never closed")
		}
	} else if end := strings.IndexAny(line, " \t=\""); end < 0 {
		keyword = line
	} else {
		keyword, rest = line[:end], line[end:]
	}
	rest = strings.TrimLeft(rest, " \t")
	if after, ok := strings.CutPrefix(rest, "="); ok { // one "=" is allowed between keyword and arguments
		rest = strings.TrimLeft(after, " \t")
	}
	args, err := splitArguments(rest)
	if err != nil {
		return directive{}, err
	}
	if len(args) == 0 {
		return directive{}, fmt.Errorf("no argument after keyword %q", keyword)
	}
	return directive{keyword: strings.ToLower(keyword), args: args, rest: rest}, nil
}

// splitArguments splits at spaces and tabs outside quotes. A # at the start of an argument starts a
// comment. A backslash escapes a quote or a backslash, and outside quotes a space.
func splitArguments(s string) ([]string, error) {
	var args []string
	for i := 0; i < len(s); {
		if s[i] == ' ' || s[i] == '\t' {
			i++
			continue
		}
		if s[i] == '#' {
			break
		}
		var word []byte
		var quote byte
		for ; i < len(s); i++ {
			c := s[i]
			if c == '\\' && i+1 < len(s) && (strings.IndexByte(`'"\`, s[i+1]) >= 0 || quote == 0 && s[i+1] == ' ') {
				i++
				word = append(word, s[i])
			} else if quote == 0 && (c == ' ' || c == '\t') {
				break
			} else if quote == 0 && (c == '"' || c == '\'') {
				quote = c
			} else if quote != 0 && c == quote {
				quote = 0
			} else {
				word = append(word, c)
			}
		}
		if quote != 0 {
			return nil, errors.New("a quote is never closed")
		}
		args = append(args, string(word))
	}
	return args, nil
}

func parsePort(s string) (int, error) {
	port, err := strconv.Atoi(s)
	if err != nil || port < 1 || port > 65535 {
		return 0, fmt.Errorf("%q is not a port", s)
	}
	return port, nil
}

// parseSeconds parses an interval as OpenSSH's convtime does: "90" or "1m30s". "none" means 0.
func parseSeconds(s string) (int, error) {
	if s == "none" {
		return 0, nil
	}
	units := map[byte]int{'s': 1, 'm': 60, 'h': 3600, 'd': 86400, 'w': 604800}
	total, digits := 0, ""
	for i := range len(s) {
		unit, known := units[s[i]|0x20]
		if s[i] >= '0' && s[i] <= '9' {
			digits += s[i : i+1]
			if i+1 < len(s) {
				continue
			}
			unit, known = 1, true
		}
		n, err := strconv.Atoi(digits)
		if !known || err != nil || n > 1<<30/unit || total > 1<<30 {
			return 0, fmt.Errorf("%q is not a time", s)
		}
		total, digits = total+n*unit, ""
	}
	if s == "" {
		return 0, errors.New("a time is missing")
	}
	return total, nil
}

// matchPattern works like match_pattern of OpenSSH's match.c: * matches any characters, ? matches
// any single character.
func matchPattern(s, pattern string) bool {
	// star is the position of the last *, and mark is the start of its match in s. On a mismatch
	// the match grows, so that no nested search is needed.
	star, mark := -1, 0
	i, j := 0, 0
	for i < len(s) {
		switch {
		case j < len(pattern) && pattern[j] == '*':
			star, mark = j, i
			j++
		case j < len(pattern) && (pattern[j] == '?' || pattern[j] == s[i]):
			i, j = i+1, j+1
		case star >= 0:
			mark++
			i, j = mark, star+1
		default:
			return false
		}
	}
	return strings.Trim(pattern[j:], "*") == ""
}

// matchPatterns reports whether some pattern matches and no negated pattern does.
func matchPatterns(s string, patterns []string) bool {
	matched := false
	for _, pattern := range patterns {
		if negated, ok := strings.CutPrefix(pattern, "!"); ok {
			if matchPattern(s, negated) {
				return false
			}
		} else if matchPattern(s, pattern) {
			matched = true
		}
	}
	return matched
}

// matchList works like matchPatterns for a list joined by commas.
func matchList(s, list string) bool { return matchPatterns(s, strings.Split(list, ",")) }

// matchHost works like matchList for host names and ignores case.
func matchHost(host, list string) bool {
	return matchList(strings.ToLower(host), strings.ToLower(list))
}

// matchResult is the outcome of a Match line.
type matchResult struct {
	active    bool
	wantFinal bool   // the line has `final`, so the configuration must be read again
	unjudged  string // a criterion that we do not evaluate and that decides the line
}

// match evaluates a Match line as match_cfg_line of readconf.c does. Criteria for which ssh would
// run a program or check the local network count as not met. They are reported if all criteria
// before them are met.
func (e *evaluation) match(args []string) matchResult {
	m := matchResult{active: true}
	for i := 0; i < len(args); i++ {
		criterion, value, joined := strings.Cut(args[i], "=")
		name, negated := strings.CutPrefix(strings.ToLower(criterion), "!")
		switch name {
		case "all":
			m.active = m.active && !negated
			continue
		case "final", "canonical":
			m.wantFinal = m.wantFinal || name == "final"
			m.active = m.active && e.final != negated
			continue
		}
		if !joined {
			if i++; i == len(args) {
				return matchResult{wantFinal: m.wantFinal}
			}
			value = args[i]
		}
		matches, judged := e.criterion(name, value)
		if !judged && m.active && m.unjudged == "" {
			m.unjudged = name
		}
		m.active = m.active && judged && matches != negated
	}
	if m.active {
		m.unjudged = ""
	}
	return m
}

// criterion evaluates one criterion that has an argument. judged is false for criteria that we do
// not evaluate.
func (e *evaluation) criterion(name, value string) (matches, judged bool) {
	switch name {
	case "host":
		return matchHost(e.hostName(), value), true
	case "originalhost":
		return matchHost(e.original, value), true
	case "user":
		return matchList(e.remoteUser(), value), true
	case "localuser":
		return matchList(e.local.name, value), true
	case "tagged":
		return matchList(e.first("tag"), value), true
	case "sessiontype":
		return matchList("exec", value), true // the launcher's ssh runs a command
	}
	return false, false
}
