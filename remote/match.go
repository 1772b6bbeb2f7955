package remote

import "strings"

// matchPattern is match_pattern of OpenSSH's match.c: * is any run of
// characters, ? any one.
func matchPattern(s, pattern string) bool {
	// star and mark remember the last * and where in s its run began, so that
	// a mismatch lengthens that run instead of starting a search of its own.
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

// matchPatterns reports whether some pattern matches and no negated one does.
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

// matchList is matchPatterns for a list joined by commas.
func matchList(s, list string) bool { return matchPatterns(s, strings.Split(list, ",")) }

// matchHost is matchList without regard to case, for host names.
func matchHost(host, list string) bool {
	return matchList(strings.ToLower(host), strings.ToLower(list))
}

// matching is the outcome of a Match line.
type matching struct {
	active    bool
	wantFinal bool   // `final` was asked: the configuration is to be read again
	unjudged  string // a criterion we cannot judge, which decides the line
}

// match judges a Match line as match_cfg_line of readconf.c does. Criteria
// that need a program run or the local network looked at count as not met, and
// are named when everything before them is met.
func (e *evaluation) match(args []string) matching {
	m := matching{active: true}
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
				return matching{wantFinal: m.wantFinal}
			}
			value = args[i]
		}
		met, judged := e.criterion(name, value)
		if !judged && m.active && m.unjudged == "" {
			m.unjudged = name
		}
		m.active = m.active && judged && met != negated
	}
	if m.active {
		m.unjudged = ""
	}
	return m
}

// criterion judges one criterion that has an argument. judged is false for
// those we refuse to look at.
func (e *evaluation) criterion(name, value string) (met, judged bool) {
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
		return matchList("exec", value), true // the launcher runs a command
	}
	return false, false
}
