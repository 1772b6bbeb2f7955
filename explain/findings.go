// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks/fix"
	"preflight/internal/text"
)

// mostEvidence is the largest number of lines that a finding shows.
const mostEvidence = 5

// finding is a Finding that is still being filled.
type finding struct {
	Finding
	t    *tally
	seen map[string]bool // nodes and ranks that are already in the finding
}

func (t *tally) finding(f Finding) *finding {
	f.Evidence = []Evidence{}
	return &finding{f, t, map[string]bool{}}
}

// finding returns the finding for a cause, filled from all messages about it.
func (c *Catalogue) finding(t *tally, id string, verdicts []verdict) Finding {
	cause := *c.causes[id]
	f := t.finding(Finding{Cause: id})
	values, advice := map[string]string{}, []string(nil)
	own := strongest(id, verdicts)
	if len(own) > 0 {
		// The headline comes from a message of the strongest kind: the first message with its own
		// title, otherwise the first message that always has this cause, otherwise the first
		// message.
		named := slices.IndexFunc(own, func(v verdict) bool { return v.kind == own[0].kind && v.signature.Title != "" })
		if named < 0 {
			named = slices.IndexFunc(own, func(v verdict) bool { return v.kind == own[0].kind && v.signature.Cause == id })
		}
		head := own[max(0, named)]
		general := cause.Title
		cause = head.signature.of(cause)
		var ok bool
		if cause.Title, ok = fill(cause.Title, with(t.valuesOf(head), "node", head.node), inWords); !ok {
			cause.Title = general
		}
		advice = head.beside.Fix
		if head.apart != nil {
			f.Summary, _ = fill(head.signature.Apart.Summary, head.apart, inWords)
		} else {
			f.Summary, _ = fill(cmp.Or(head.beside.Summary, head.signature.Summary), with(t.valuesOf(head), "node", head.node), inWords)
		}
	}
	for _, v := range own {
		learn(values, t.valuesOf(v))
		f.note(v)
	}
	f.Title, f.Summary = cause.Title, cmp.Or(f.Summary, cause.Title)
	f.Hearsay = !slices.ContainsFunc(verdicts, func(v verdict) bool { return v.cause == id && v.kind != Echo })
	f.addChecks(cause.Checks, values)
	if len(f.Nodes) > 0 {
		values["node"] = f.Nodes[0]
	}
	values["target"] = cmp.Or(values["peer"], values["node"]) // the host argument of ssh; pdsh writes it into the prefix
	for _, line := range t.fitting(slices.Concat(advice, cause.Fix)) {
		filled, ok := fill(line, values, asArgument)
		if !ok {
			continue
		}
		f.addFix(filled)
		for _, word := range blanksIn(line, values) {
			f.addBlank(word)
		}
	}
	return f.Finding
}

func (f *finding) addBlank(word string) {
	if put := word + " is " + tables().Blanks[word]; !slices.Contains(f.Where, put) {
		f.Where = append(f.Where, put)
	}
}

// addFix adds a line to the fixes. The first line that changes something is the fix, and each later
// one is an alternative.
func (f *finding) addFix(line string) {
	code, _, _ := strings.Cut(line, "   # ")
	role := fix.Fix
	if tables().Looks.MatchString(code) {
		role = fix.Look
	} else if slices.Contains(f.Roles, fix.Fix) {
		role = fix.Or
	}
	f.Fix, f.Roles, f.Complete = append(f.Fix, line), append(f.Roles, role), append(f.Complete, !tables().Incomplete.MatchString(code))
}

// fitting leaves out commands of other launchers than the log's own, if the lines have a command of
// the log's own launcher.
func (t *tally) fitting(lines []string) []string {
	ours := t.launchers
	for _, h := range t.occurrences {
		for name, l := range tables().Launchers {
			ours[name] = ours[name] || h.signature != nil && l.Prints.MatchString(h.signature.From)
		}
	}
	isOurs := func(line string) (is, known bool) {
		is, known = ours[strings.Fields(line)[0]]
		return is, known
	}
	if !slices.ContainsFunc(lines, func(line string) bool { is, _ := isOurs(line); return is }) {
		return lines
	}
	return slices.DeleteFunc(lines, func(line string) bool { is, known := isOurs(line); return known && !is })
}

// strongest returns the failures with this cause, the best evidence first: messages that name the
// cause come before messages that only suggest it.
func strongest(id string, verdicts []verdict) (own []verdict) {
	for _, kind := range []Kind{Proof, Symptom, Echo} {
		for _, v := range verdicts {
			if v.cause == id && v.kind == kind {
				own = append(own, v)
			}
		}
	}
	return own
}

// CheckCommand returns the command that runs checks before a launch.
func CheckCommand(checks []string) string {
	hosts, launch := " -H hostfile", ""
	if len(NeedCommand(checks)) > 0 {
		hosts, launch = "", " -- COMMAND" // most launch commands name their hosts
	}
	command := "preflight" + hosts + " --only " + strings.Join(checks, ",")
	if strings.Contains(command, "gpu-computes") || strings.Contains(command, "collective") {
		command += " --smoke" // these checks run only with it
	}
	return command + launch
}

// NeedCommand returns those of the checks that examine what the launch command names.
func NeedCommand(checks []string) []string {
	return slices.DeleteFunc(slices.Clone(checks), func(check string) bool { return !slices.Contains(tables().OfCommand, check) })
}

// addChecks sets the checks and the command that find the cause before the next launch.
func (f *finding) addChecks(checks []string, values map[string]string) {
	if f.Checks = checks; len(checks) == 0 {
		return
	}
	f.Check = checks[0]
	f.Command = CheckCommand(checks)
	if len(NeedCommand(checks)) > 0 { // the command also says where the ranks meet
		f.addBlank("COMMAND")
		return
	}
	port, err := strconv.Atoi(values["port"])
	if aboutMaster := checks[0] == "master-address" || slices.Contains(checks, "master-port-free") || slices.Contains(checks, "rendezvous"); !aboutMaster || err != nil {
		return
	}
	if address, ok := asArgument("", cmp.Or(values["address"], values["peer"])); ok {
		f.MasterAddr = address
		f.Command += " --master_addr " + address
	}
	f.MasterPort = port
	f.Command += fmt.Sprintf(" --master_port %d", port)
}

// of returns a cause in which the message's own title, checks and fixes replace those of the cause.
func (s *Signature) of(cause Cause) Cause {
	cause.Title = cmp.Or(s.Title, cause.Title)
	if s.Checks != nil {
		cause.Checks = s.Checks
	}
	if s.Fix != nil {
		cause.Fix = s.Fix
	}
	return cause
}

// unexplained returns the alarms after which the log shows no success, or nil if there are no such
// alarms.
func (t *tally) unexplained(verdicts []verdict) *Finding {
	f := t.finding(Finding{Summary: "These lines look like a failure, but no signature matches them"})
	for _, v := range verdicts {
		if v.kind == Alarm {
			f.note(v)
		}
	}
	if f.Count == 0 {
		return nil
	}
	return &f.Finding
}

// valuesOf returns the values of a message, and the values of the other messages that determine its
// meaning.
func (t *tally) valuesOf(v verdict) map[string]string {
	values := map[string]string{}
	learn(values, v.values)
	for _, beside := range v.beside.Any {
		for _, h := range t.bySignature[beside] {
			learn(values, h.values)
		}
	}
	return values
}

func learn(values, more map[string]string) {
	for name, value := range more {
		if _, known := values[name]; !known {
			values[name] = value
		}
	}
}

// folded collects messages without a cause. Messages of one signature and exceptions of one class
// are merged.
type folded struct {
	t     *tally
	all   []*finding
	alike map[string]*finding
}

func (t *tally) folded() folded { return folded{t: t, alike: map[string]*finding{}} }

func (f *folded) add(v verdict) {
	alike, _, _ := strings.Cut(v.exception, ":")
	summary := v.exception
	if v.signature != nil {
		alike = v.signature.ID
		var ok bool
		if summary, ok = fill(v.signature.Summary, with(v.values, "node", v.node), inWords); !ok {
			summary = Plain([]string{v.signature.Summary})[0]
		}
	}
	if f.alike[alike] == nil {
		f.alike[alike] = f.t.finding(Finding{Summary: summary})
		f.all = append(f.all, f.alike[alike])
	}
	f.alike[alike].note(v)
}

func (f *folded) findings() []Finding {
	return text.Map(f.all, func(one *finding) Finding { return one.Finding })
}

// note adds the messages of one speaker to the finding.
func (f *finding) note(v verdict) {
	f.Count += v.count
	if v.signature != nil && v.signature.Differs != "" {
		f.noteValues(v.signature)
		return
	}
	f.noteSpeaker(v.speaker)
	if len(f.Evidence) < mostEvidence {
		f.Evidence = append(f.Evidence, f.t.evidence(v.event))
	}
}

func (f *finding) noteSpeaker(who speaker) {
	if key := "node " + who.node; who.node != "" && !f.seen[key] {
		f.seen[key] = true
		f.Nodes = append(f.Nodes, who.node)
	}
	if key := "rank " + who.rank; who.rank != "" && !f.seen[key] {
		f.seen[key] = true
		f.Ranks = append(f.Ranks, who.rank)
	}
}

// noteValues adds one speaker for each value, if a value should be the same for all speakers but
// differs.
func (f *finding) noteValues(s *Signature) {
	if f.seen["values "+s.ID] {
		return
	}
	f.seen["values "+s.ID] = true
	for _, e := range slices.SortedFunc(maps.Values(f.t.values[s]), func(a, b event) int { return a.position - b.position }) {
		f.noteSpeaker(e.speaker)
		if len(f.Evidence) < mostEvidence {
			f.Evidence = append(f.Evidence, f.t.evidence(e))
		}
	}
}

func (t *tally) evidence(e event) Evidence {
	found := Evidence{File: t.sources[e.file], Line: e.line, Node: e.node, Rank: e.rank, Time: e.at.String(), Text: e.text}
	if e.told != nil {
		found.More = e.told.lines
	}
	return found
}

// timeline returns the first failure of each speaker, or nil if only one speaker failed.
func (t *tally) timeline(verdicts []verdict) []Death {
	if t.many && slices.ContainsFunc(verdicts, func(v verdict) bool { return v.failed() && !v.at.Known() }) {
		return nil // without times, the order of lines in different logs is unknown
	}
	var deaths []Death
	seen := map[speaker]bool{}
	for _, v := range verdicts {
		if !v.failed() || seen[v.speaker] || v.speaker == (speaker{}) {
			continue
		}
		seen[v.speaker] = true
		e := t.evidence(v.event)
		deaths = append(deaths, Death{Node: e.Node, Rank: e.Rank, Time: e.Time, Cause: v.cause, File: e.File, Line: e.Line, Text: e.Text})
	}
	if len(deaths) < 2 {
		return nil
	}
	return deaths
}

var (
	placeholder = regexp.MustCompile(`\{(\w+)(?:\|([^{}]*))?\}`)
	// harmless matches values that may be inserted into a command that a person will paste. The
	// values come from a log, and the author of the log is not trusted.
	harmless = regexp.MustCompile(`^[A-Za-z0-9._/@%+,=:][A-Za-z0-9._/@%+,=:-]*$`)
	// redacted matches what people write over an address or a name before they publish a log.
	redacted = regexp.MustCompile(`(?i)^(?:[x\d]{1,3}\.)*x+(?:\.[x\d]{1,3})*$|redacted|masked|^(?:my|your)[-_]|^(?:some)?(?:host|ip|node)(?:[-_]?name|[-_]?addr\w*)?$`)
)

// fill replaces {name} in a sentence with the message's value of that name. It replaces
// {name|words} with the value, or with the words if there is no value. It returns false if a {name}
// has no value.
func fill(sentence string, values map[string]string, form func(name, value string) (string, bool)) (string, bool) {
	complete := sentence != ""
	filled := placeholder.ReplaceAllStringFunc(sentence, func(found string) string {
		parts := placeholder.FindStringSubmatch(found)
		if value, ok := form(parts[1], values[parts[1]]); ok {
			return value
		}
		if !strings.Contains(found, "|") {
			complete = false
		}
		return parts[2]
	})
	if !complete {
		return "", false
	}
	return filled, true
}

func inWords(name, value string) (string, bool) {
	if name == "bytes" {
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			return humanize.IBytes(n), true
		}
	}
	return value, value != ""
}

func asArgument(_, value string) (string, bool) {
	return value, harmless.MatchString(value) && !redacted.MatchString(value)
}

// blanksIn returns the placeholders, such as NODE, that remain in a sentence after fill.
func blanksIn(sentence string, values map[string]string) (words []string) {
	for _, found := range placeholder.FindAllStringSubmatch(sentence, -1) {
		if _, told := asArgument(found[1], values[found[1]]); !told && tables().Blanks[found[2]] != "" {
			words = append(words, found[2])
		}
	}
	return words
}

func with(values map[string]string, name, value string) map[string]string {
	all := maps.Clone(values)
	if _, known := all[name]; !known && all != nil && value != "" {
		all[name] = value
	}
	return all
}

// Plain returns sentences without values. It replaces {name|words} with the words, and {name} with
// the name in capitals.
func Plain(sentences []string) []string {
	plain := make([]string, len(sentences))
	for i, sentence := range sentences {
		plain[i] = placeholder.ReplaceAllStringFunc(sentence, func(found string) string {
			parts := placeholder.FindStringSubmatch(found)
			if strings.Contains(found, "|") {
				return parts[2]
			}
			return strings.ToUpper(parts[1])
		})
	}
	return plain
}

// counted is the size in bytes of the reference count that follows a segment since NCCL 2.16. The
// sizes in messages about the file include the reference count. The sizes in messages about the
// segment do not.
const counted = 4

// derive adds values that follow from other values. The size of an NCCL segment gives its purpose,
// and the number of a release gives its name.
func derive(values map[string]string) {
	if release, ok := releaseOf(values["version"]); ok {
		values["version"] = release
		if other, ok := releaseOf(values["wanted"]); ok {
			values["wanted"] = other
		}
	}
	if !strings.Contains(values["path"], "nccl-") {
		return
	}
	size, err := strconv.ParseUint(values["bytes"], 10, 64)
	if err != nil || size < counted {
		return
	}
	for _, size := range []uint64{size, size - counted} {
		if what, known := tables().Segments[size]; known {
			values["what"] = what
			return
		}
	}
}

// releaseOf converts NCCL's version number to a name. 2804 is 2.8.4. Since 2.9 the minor version
// has two digits, so 22703 is 2.27.3.
func releaseOf(number string) (string, bool) {
	code, err := strconv.ParseUint(number, 10, 32)
	switch {
	case err != nil:
		return "", false
	case code >= 2_000 && code < 2_900:
		return fmt.Sprintf("2.%d.%d", code/100%10, code%100), true
	case code >= 20_900 && code < 30_000:
		return fmt.Sprintf("2.%d.%d", code/100%100, code%100), true
	}
	return "", false
}
