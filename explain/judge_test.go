// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"preflight/checks/fix"
)

// small returns a catalogue with one message of each kind, so that tests check how messages are
// weighed and not their texts.
func small(t *testing.T) *Catalogue {
	t.Helper()
	const causes = `
- {id: shm, title: shm title, doc: d, checks: [shm-size], fix: ['df {path|/dev/shm}', 'ls {path}']}
- {id: unreachable, title: unreachable title, doc: d, checks: [], fix: [look]}
- {id: late, title: late title, doc: d, checks: [], fix: [look]}
- {id: gone, title: gone title, doc: d, checks: [], fix: [look]}
- {id: name, title: name title, doc: d, checks: [], fix: [look]}
- {id: versions, title: versions title, doc: d, checks: [], fix: [look]}
`
	const signatures = `
- {id: full, kind: cause, cause: shm, says: ['no room for (?P<path>\S+)'], summary: 'no room on {node|a node} for {path}', from: f, examples: [e]}
- id: timeout
  kind: symptom
  cause: unreachable
  says: ['timed out waiting for (?P<peer>\S+) after (?P<seconds>\d+) seconds']
  beside: [{any: [by-name], cause: name, kind: cause}]
  from: f
  examples: [e]
- {id: slow, kind: symptom, cause: late, says: ['collective is late'], from: f, examples: [e]}
- {id: closed, kind: echo, cause: gone, says: ['connection closed'], from: f, examples: [e]}
- {id: again, kind: cause, cause: unreachable, retried: true, says: ['connect failed, trying again'], summary: it went on, from: f, examples: [e]}
- {id: call, kind: symptom, cause: unreachable, retried: true, says: ['call refused, trying again'], summary: it called again, from: f, examples: [e]}
- {id: count, kind: summary, says: ['children failed'], summary: the launcher counted, from: f, examples: [e]}
- {id: shrug, kind: noise, says: ['address family 97'], summary: harmless, from: f, examples: [e]}
- {id: met, kind: success, says: ['all have met'], from: f, examples: [e]}
- {id: own, kind: program, says: ['the program divided by zero'], summary: its own, from: f, examples: [e]}
- {id: alarm, kind: alarm, says: ['\bfailed\b', 'ERROR'], unless: ['INFO'], summary: looks bad, from: f, examples: [e]}
- {id: head, kind: alarm, says: ['Traceback \(most'], summary: cut, from: f, examples: [e]}
- {id: by-name, kind: context, says: ['meeting by name'], from: f, examples: [e]}
- {id: version, kind: cause, cause: versions, differs: version, says: ['library version (?P<version>\S+)'], from: f, examples: [e]}
`
	files := fstest.MapFS{"causes.yaml": {Data: []byte(causes)}}
	for _, family := range tables().Families {
		files["signatures/"+family+".yaml"] = &fstest.MapFile{Data: []byte("[]")}
	}
	files["signatures/nccl.yaml"] = &fstest.MapFile{Data: []byte(signatures)}
	c, err := load(files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func explained(t *testing.T, logs ...string) Report {
	t.Helper()
	var sources []Source
	for i, log := range logs {
		sources = append(sources, read(fmt.Sprintf("logs/w%d.log", i+1), log))
	}
	return small(t).Explain(sources)
}

// short returns the cause, or else the summary, of each finding.
func short(findings []Finding) string {
	var all []string
	for _, f := range findings {
		if f.Cause != "" {
			all = append(all, f.Cause)
		} else {
			all = append(all, f.Summary)
		}
	}
	return strings.Join(all, ", ")
}

func TestJudge(t *testing.T) {
	type conclusion struct {
		Causes, Program, Consequences, Noise, Unexplained string
		ExitCode                                          int
	}
	for name, test := range map[string]struct {
		log  string
		want conclusion
	}{
		"nothing":                        {"loss 0.5\n", conclusion{ExitCode: 2}},
		"an empty log":                   {"", conclusion{ExitCode: 2}},
		"harmless":                       {"address family 97\naddress family 97\n", conclusion{Noise: "harmless", ExitCode: 2}},
		"a cause wins over all before":   {"timed out waiting for w1 after 60 seconds\nno room for x\n", conclusion{Causes: "shm", Consequences: "unreachable", ExitCode: 1}},
		"the first symptom":              {"collective is late\ntimed out waiting for w1 after 60 seconds\n", conclusion{Causes: "late", Consequences: "unreachable", ExitCode: 1}},
		"a symptom wins over an echo":    {"connection closed\ncollective is late\n", conclusion{Causes: "late", Consequences: "gone", ExitCode: 1}},
		"only an echo":                   {"connection closed\nchildren failed\n", conclusion{Causes: "gone", Consequences: "the launcher counted", ExitCode: 1}},
		"only a summary":                 {"children failed\n", conclusion{Consequences: "the launcher counted", ExitCode: 2}},
		"by time and not by place":       {"[2024-01-01 10:00:05] collective is late\n[2024-01-01 10:00:01] timed out waiting for w1 after 60 seconds\n", conclusion{Causes: "unreachable", Consequences: "late", ExitCode: 1}},
		"by place where one has no time": {"collective is late\n[2024-01-01 10:00:01] timed out waiting for w1 after 60 seconds\n", conclusion{Causes: "late", Consequences: "unreachable", ExitCode: 1}},
		"tried again and well":           {"connect failed, trying again\nall have met\n", conclusion{Noise: "it went on"}},
		"tried again and not well":       {"all have met\nconnect failed, trying again\n", conclusion{Causes: "unreachable", ExitCode: 1}},
		"beside another message":         {"meeting by name\ncollective is late\ntimed out waiting for w1 after 60 seconds\n", conclusion{Causes: "name", Consequences: "late", ExitCode: 1}},
		"one value":                      {"library version 1\nlibrary version 1\n", conclusion{ExitCode: 2}},
		"two conclusion":                 {"w1: library version 1\nw2: library version 2\n", conclusion{Causes: "versions", ExitCode: 1}},
		"wrapped":                        {"w1: timed out waiting\nw1: for w1 after\nw1: 60 seconds\n", conclusion{Causes: "unreachable", ExitCode: 1}},
		"two conclusion of one speaker":  {"w1: library version 1\nw1: library version 2\n", conclusion{ExitCode: 2}},
		"tried again, well, and ended":   {"connect failed, trying again\nall have met\ncollective is late\n", conclusion{Causes: "unreachable", Consequences: "late", ExitCode: 1}},
		"tried again, well for long, and ended": {"connect failed, trying again\n" + strings.Repeat("all have met\n", lasting) + "collective is late\n",
			conclusion{Causes: "late", Consequences: "unreachable", ExitCode: 1}},
		"an exception that was caught": {"Traceback (most recent call last):\nValueError: bad\nall have met\n", conclusion{Noise: "ValueError: bad"}},
		"an exception, others go on, and the end": {"Traceback (most recent call last):\nValueError: bad\nall have met\nchildren failed\n",
			conclusion{Program: "ValueError: bad", Consequences: "the launcher counted", ExitCode: 1}},
		"an exception that was caught long ago": {"Traceback (most recent call last):\nValueError: bad\n" + strings.Repeat("all have met\n", lasting) + "connection closed\n",
			conclusion{Causes: "gone", Consequences: "ValueError: bad", ExitCode: 1}},
		"one exception of another": {"Traceback (most recent call last):\nKeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\nRuntimeError: 2\n",
			conclusion{Program: "RuntimeError: 2", ExitCode: 1}},
		"an exception behind times": {"2024-05-01T10:00:00.1Z Traceback (most recent call last):\n2024-05-01T10:00:00.2Z   File \"a.py\"\n2024-05-01T10:00:00.3Z ValueError: bad\n",
			conclusion{Program: "ValueError: bad", ExitCode: 1}},
		"an exception with others in between": {"Traceback (most recent call last):\n  File \"a.py\"\nINFO:root:loading\nEpoch 1 of 3\nValueError: bad\n",
			conclusion{Program: "ValueError: bad", ExitCode: 1}},
		"not wrapped, though its words go on": {"connection closed\nconnection closed\n", conclusion{Causes: "gone", ExitCode: 1}},
		"cut in its first word":               {strings.Repeat(".", narrowest) + " timed out wai\nting for w1 after 60 seconds\n", conclusion{Causes: "unreachable", ExitCode: 1}},
		"cut in a later word":                 {strings.Repeat(".", narrowest) + " timed out waiting for w1 aft\ner 60 seconds\n", conclusion{Causes: "unreachable", ExitCode: 1}},
		"cut behind a prefix":                 {"w1: " + strings.Repeat(".", narrowest) + " timed out wai\nw1: ting for w1 after 60 seconds\n", conclusion{Causes: "unreachable", ExitCode: 1}},
		"cut where no terminal is so narrow":  {"timed out wai\nting for w1 after 60 seconds\n", conclusion{ExitCode: 2}},
		"wrapped over too much":               {"timed out waiting for\n1\n2\n3\nw1 after 60 seconds\n", conclusion{ExitCode: 2}},
		"the program's own": {"Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: bad\nconnection closed\n",
			conclusion{Program: "ValueError: bad", Consequences: "gone", ExitCode: 1}},
		"an exception that is known": {"Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nRuntimeError: connection closed\n",
			conclusion{Causes: "gone", ExitCode: 1}},
		"an exception after a symptom": {"collective is late\nTraceback (most recent call last):\nValueError: bad\n",
			conclusion{Causes: "late", Consequences: "ValueError: bad", ExitCode: 1}},
		"the program's own, that is known": {"connection closed\nthe program divided by zero\n",
			conclusion{Program: "the program divided by zero", Consequences: "gone", ExitCode: 1}},
		"an exception that is only like one that is known": {"Traceback (most recent call last):\nValueError: timed out waiting for Godot\nconnection closed\n",
			conclusion{Program: "ValueError: timed out waiting for Godot", Consequences: "gone", ExitCode: 1}},
		"an exception that is known once it goes on": {"Traceback (most recent call last):\nValueError: timed out waiting for w1\nafter 60 seconds\n",
			conclusion{Causes: "unreachable", ExitCode: 1}},
		"an exception without its traceback": {"w1: [rank2]: mylib.BadError: bad\nconnection closed\n",
			conclusion{Program: "mylib.BadError: bad", Consequences: "gone", ExitCode: 1}},
		"a plain Exception":                   {"Exception: loss scale at its minimum\n", conclusion{Program: "Exception: loss scale at its minimum", ExitCode: 1}},
		"a plain Exception and its traceback": {"Traceback (most recent call last):\n  File \"a.py\"\nException: bad\n", conclusion{Program: "Exception: bad", ExitCode: 1}},
		"words that only end in Error":        {"the last Error: none\nTypeErrors: 0\nloss: 1\n", conclusion{ExitCode: 2}},
		"an exception that Python ignores": {"Exception ignored in: <function f>\nTraceback (most recent call last):\nValueError: bad\nconnection closed\n",
			conclusion{Causes: "gone", ExitCode: 1}},
		"what looks like a failure":                          {"fine\nw1: the pump failed\nERROR: no water\n", conclusion{Unexplained: "the pump failed\nERROR: no water\n", ExitCode: 2}},
		"what looks like a failure, and a cause":             {"the pump failed\nconnection closed\n", conclusion{Causes: "gone", ExitCode: 1}},
		"what looks like a failure, and all goes on":         {"the pump failed\nall have met\n", conclusion{}},
		"what looks like a failure, after all is well":       {"all have met\nthe pump failed\n", conclusion{Unexplained: "the pump failed\n", ExitCode: 2}},
		"what looks like a failure and is none":              {"INFO no pump failed\n", conclusion{ExitCode: 2}},
		"what looks like a failure beside a context":         {"meeting by name failed\n", conclusion{Unexplained: "meeting by name failed\n", ExitCode: 2}},
		"what looks like a failure and is harmless":          {"address family 97 failed\n", conclusion{Noise: "harmless", ExitCode: 2}},
		"what looks like a failure, wrapped over two":        {"w1: timed out waiting ERROR\nw1: for w1 after 60 seconds\n", conclusion{Unexplained: "timed out waiting ERROR\n", ExitCode: 2}},
		"what is known of two lines that look like failures": {"w1: ERROR timed out waiting for\nw1: w1 after 60 seconds failed\n", conclusion{Causes: "unreachable", ExitCode: 1}},
		"a launcher's count, and what looks like a failure":  {"the pump failed\nchildren failed\n", conclusion{Consequences: "the launcher counted", Unexplained: "the pump failed\n", ExitCode: 2}},
		"a traceback without its end": {"Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    raise failed\n",
			conclusion{Unexplained: "Traceback (most recent call last):\n", ExitCode: 2}},
		"a traceback that speaks of failures and was caught": {"Traceback (most recent call last):\n    raise failed\nValueError: bad\nall have met\n", conclusion{Noise: "ValueError: bad"}},
		"two tracebacks through each other": {
			"[rank0]: Traceback (most recent call last):\n[rank1]: Traceback (most recent call last):\n[rank0]:   File \"a.py\", line 1\n" +
				"[rank1]: KeyError: 1\n[rank0]: connection closed\n", conclusion{Program: "KeyError: 1", Consequences: "gone", ExitCode: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := explained(t, test.log)
			got := conclusion{Causes: short(r.Causes), Consequences: short(r.Consequences), Noise: short(r.Noise), ExitCode: r.ExitCode}
			if r.Program != nil {
				got.Program = r.Program.Evidence[0].Text
			}
			if r.Unexplained != nil {
				for _, e := range r.Unexplained.Evidence {
					got.Unexplained += e.Text + "\n"
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestEvidence checks that a finding shows the lines and their writers, and that the fixes contain
// the messages' values.
func TestEvidence(t *testing.T) {
	r := explained(t, "[2024-01-01 10:00:00] fine\n[rank3]: no room for /dev/shm/x\n[rank3]: no room for /dev/shm/x\n", "w9: no room for $(reboot)\n")
	want := []Finding{{
		Cause: "shm", Check: "shm-size", Checks: []string{"shm-size"}, Title: "shm title", Summary: "no room on w1 for /dev/shm/x",
		Nodes: []string{"w1", "w9"}, Ranks: []string{"3"}, Count: 3,
		Evidence: []Evidence{
			{File: "logs/w1.log", Line: 2, Node: "w1", Rank: "3", Time: "01-01 10:00:00", Text: "no room for /dev/shm/x"},
			{File: "logs/w2.log", Line: 1, Node: "w9", Text: "no room for $(reboot)"},
		},
		Fix: []string{"df /dev/shm/x", "ls /dev/shm/x"}, Roles: []fix.Role{fix.Look, fix.Look}, Complete: []bool{true, true},
		Command: "preflight -H hostfile --only shm-size",
	}}
	if diff := cmp.Diff(want, r.Causes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	hostile := explained(t, "no room for $(reboot)\n")
	if got := hostile.Causes[0].Fix; !cmp.Equal(got, []string{"df /dev/shm"}) {
		t.Errorf("a log writes commands: %q", got)
	}
}

// TestProgressElsewhere checks that progress in the log of any rank shows that a retry succeeded.
func TestProgressElsewhere(t *testing.T) {
	r := explained(t, "call refused, trying again\n", "all have met\n")
	if len(r.Causes) > 0 || short(r.Noise) != "it called again" {
		t.Errorf("causes %s, harmless %s", short(r.Causes), short(r.Noise))
	}
	r = explained(t, "call refused, trying again\n", "all have met\nconnection closed\n")
	if short(r.Causes) != "unreachable" {
		t.Errorf("somebody failed, and the causes are %s", short(r.Causes))
	}
	r = explained(t, "Traceback (most recent call last):\nValueError: bad\n", "all have met\n")
	if r.Program == nil {
		t.Error("a rank that died is saved by another's progress")
	}
}

// TestOrder checks that messages that are not failures do not affect the order by time.
func TestOrder(t *testing.T) {
	r := explained(t, "[2024-01-01 10:00:05] collective is late\n", "address family 97\n[2024-01-01 10:00:01] timed out waiting for w1 after 60 seconds\n")
	if short(r.Causes) != "unreachable" {
		t.Errorf("the first is conclusion as %s", short(r.Causes))
	}
}

// TestTimeline checks that in logs of several nodes the node that failed first comes first.
func TestTimeline(t *testing.T) {
	r := explained(t, "[2024-01-01 10:00:09] connection closed\n", "[2024-01-01 10:00:02] collective is late\n[2024-01-01 10:00:03] no room for x\n")
	want := []Death{
		{Node: "w2", Time: "01-01 10:00:02", Cause: "late", File: "logs/w2.log", Line: 1, Text: "collective is late"},
		{Node: "w1", Time: "01-01 10:00:09", Cause: "gone", File: "logs/w1.log", Line: 1, Text: "connection closed"},
	}
	if diff := cmp.Diff(want, r.Timeline); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if one := explained(t, "connection closed\n").Timeline; one != nil {
		t.Errorf("one speaker has a timeline: %v", one)
	}
}

// TestMemoryIsBounded checks that a log with a very large number of writers still gives a result.
func TestMemoryIsBounded(t *testing.T) {
	var log strings.Builder
	for i := range 2 * mostOccurrences {
		fmt.Fprintf(&log, "w%d: connection closed\n", i)
	}
	seen := newTally(1)
	seen.sources = []string{"log"}
	if err := small(t).read(read("log", log.String()), 0, seen); err != nil {
		t.Fatal(err)
	}
	if len(seen.occurrences) > mostOccurrences+1 {
		t.Errorf("%d are kept", len(seen.occurrences))
	}
	count := 0
	for _, h := range seen.occurrences {
		count += h.count
	}
	if count != 2*mostOccurrences {
		t.Errorf("%d lines are counted of %d", count, 2*mostOccurrences)
	}
}

// TestLoadRefuses checks that load returns an error for a signature that could never match or that
// refers to something that does not exist.
func TestLoadRefuses(t *testing.T) {
	for name, signature := range map[string]string{
		"no such cause":     "{id: a, kind: cause, cause: nowhere, says: [words]}",
		"cause of a noise":  "{id: a, kind: noise, cause: one, says: [words]}",
		"no such kind":      "{id: a, kind: guess, cause: one, says: [words]}",
		"no such neighbour": "{id: a, kind: cause, cause: one, says: [words], beside: [{any: [b], cause: one}]}",
		"no fixed text":     `{id: a, kind: cause, cause: one, says: ['\w+']}`,
		"any case":          "{id: a, kind: cause, cause: one, says: ['(?i)words']}",
		"not an expression": "{id: a, kind: cause, cause: one, says: ['(words']}",
		"no such group":     "{id: a, kind: cause, cause: one, says: [words], differs: version}",
		"no such meaning":   "{id: a, kind: cause, cause: one, says: [words], apart: {cause: nowhere}}",
		"twice":             "{id: a, kind: cause, cause: one, says: [words]}\n- {id: a, kind: cause, cause: one, says: [words]}",
		"an unknown key":    "{id: a, kind: cause, cause: one, says: [words], say: [words]}",
	} {
		files := fstest.MapFS{"causes.yaml": {Data: []byte("- {id: one, title: t, doc: d, fix: [f]}")}}
		for _, family := range tables().Families {
			files["signatures/"+family+".yaml"] = &fstest.MapFile{Data: []byte("[]")}
		}
		files["signatures/nccl.yaml"] = &fstest.MapFile{Data: []byte("- " + signature)}
		if c, err := load(files); err == nil && mistakes(c) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestWrappedKeepsItsSpeaker checks that a message on several lines gets its writer from the prefix
// of the first line.
func TestWrappedKeepsItsSpeaker(t *testing.T) {
	r := explained(t, "w1: [rank3]: timed out waiting for w2 after\nw1: [rank3]: 60 seconds\n")
	if f := r.Causes[0]; !cmp.Equal(f.Nodes, []string{"w1"}) || !cmp.Equal(f.Ranks, []string{"3"}) || f.Evidence[0].Line != 1 {
		t.Errorf("%+v", f)
	}
}

// TestCompressed checks that explain reads logs in all supported compressed formats.
func TestCompressed(t *testing.T) {
	for name, writer := range map[string]func(io.Writer) (io.WriteCloser, error){
		"gzip": func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"xz":   func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) },
		"zstd": func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
	} {
		var packed bytes.Buffer
		w, err := writer(&packed)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, strings.Repeat("loss 0.5\n", 10_000), "connection closed\n")
		w.Close()
		if r := small(t).Explain([]Source{read("w1", packed.String())}); short(r.Causes) != "gone" || r.Lines != 10_001 {
			t.Errorf("%s: causes %q of %d lines, unread %v", name, short(r.Causes), r.Lines, r.Unread)
		}
	}
}

// TestUnread checks that the report lists logs that cannot be read and does not count them as
// healthy.
func TestUnread(t *testing.T) {
	var packed bytes.Buffer
	gz := gzip.NewWriter(&packed)
	fmt.Fprint(gz, "loss 0.5\n", strings.Repeat("no end of words\n", 10_000))
	gz.Close()
	torn := read("torn.log.gz", packed.String()[:packed.Len()/2])
	squeezed := func(text string) string {
		var packed bytes.Buffer
		gz := gzip.NewWriter(&packed)
		io.WriteString(gz, text)
		gz.Close()
		return packed.String()
	}
	for start, reason := range map[string]string{
		squeezed(strings.Repeat("\x00", 5000)):                           "the compressed content is not text",
		squeezed(squeezed("connection closed\n")):                        "the file is compressed twice",
		squeezed("PK\x03\x04"):                                           "the compressed content is an archive",
		squeezed("w1.log" + strings.Repeat("\x00", 251) + "ustar\x0000"): "the compressed content is an archive",
		"\xfd7zXZ\x00": "EOF", "\x28\xb5\x2f\xfd": "EOF", "PK\x03\x04": "unzip", "\x7fELF\x02\x01\x01\x00\x03": "the file is not text", "\x00\x00\x00": "the file is not text",
		// These texts are the start of dumps of torch 2.15's flight recorder, as a pickle and as
		// JSON.
		"\x80\x02}(X\x07\x00\x00\x00versionq\x00X\x04\x00\x00\x002.10q\x01X\x09\x00\x00\x00pg_configq\x02}(": "torchfrtrace",
		`{"comm_lib_version":"","entries":[{"collective_seq_id":1,"input_dtypes":["Float"],`:                 "torchfrtrace",
	} {
		if r := small(t).Explain([]Source{read("w1", start)}); r.ExitCode != 2 || len(r.Unread) != 1 || !strings.Contains(r.Unread[0].Reason, reason) {
			t.Errorf("%q: exit code %d, unread %v", start, r.ExitCode, r.Unread)
		}
	}
	if r := small(t).Explain([]Source{read("w1", "\xff\xfec\x00o\x00n\x00n\x00e\x00c\x00t\x00i\x00o\x00n\x00 \x00c\x00l\x00o\x00s\x00e\x00d\x00\n\x00")}); short(r.Causes) != "gone" {
		t.Errorf("UTF-16 is conclusion as %s", short(r.Causes))
	}
	absent := Source{"absent.log", func() (io.ReadCloser, error) { return nil, errors.New("not there") }}
	r := small(t).Explain([]Source{torn, absent, read("w1.log", "connection closed\n")})
	want := []Unread{{"torn.log.gz", "unexpected EOF", false}, {"absent.log", "not there", true}}
	if diff := cmp.Diff(want, r.Unread); diff != "" || short(r.Causes) != "gone" || r.ExitCode != 1 {
		t.Errorf("causes %s, exit code %d (-want +got):\n%s", short(r.Causes), r.ExitCode, diff)
	}
	if r := small(t).Explain([]Source{torn}); r.ExitCode != 2 || r.Lines < 100 {
		t.Errorf("exit code %d after %d lines", r.ExitCode, r.Lines)
	}
}

// TestEmpty checks that the report lists an empty log, but does not count it as a failure if there
// are other logs.
func TestEmpty(t *testing.T) {
	r := small(t).Explain([]Source{read("w1.log", "all have met\n"), read("w2.log", ""), read("w3.log", "\n")})
	if !cmp.Equal(r.Empty, []string{"w2.log"}) || r.ExitCode != 0 {
		t.Errorf("empty %v, exit code %d", r.Empty, r.ExitCode)
	}
}

// TestLongLogTakesLittle checks that explain keeps only the shown part of lines, and that it counts
// messages without a recorded writer.
func TestLongLogTakesLittle(t *testing.T) {
	const lines, width = 2 * mostTimes, 10_000
	tail := strings.Repeat("x", width)
	log := Source{"log", func() (io.ReadCloser, error) {
		out, in := io.Pipe()
		go func() {
			for n := range lines {
				fmt.Fprintf(in, "[rank%d]: connection closed %d %s\n", n, n, tail)
			}
			in.Close()
		}()
		return out, nil
	}}
	catalogue := small(t)
	seen := newTally(1)
	seen.sources = []string{"log"}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if err := catalogue.read(log, 0, seen); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > lines*width/4 {
		t.Errorf("%d bytes are kept of %d", kept, lines*width)
	}
	if r := catalogue.judge(seen); r.Lines != lines || r.Nameless < lines/4 || short(r.Causes) != "gone" {
		t.Errorf("%d lines, %d counted without a name, causes %s", r.Lines, r.Nameless, short(r.Causes))
	}
}

// TestManyRepeats checks that the finding still names a node that logs a message after the message
// has occurred more than mostTimes times.
func TestManyRepeats(t *testing.T) {
	var log strings.Builder
	for n := range 2 * mostTimes {
		fmt.Fprintf(&log, "w%d: connection closed %d\n", 1+n/mostTimes, n)
	}
	if r := explained(t, log.String()); !cmp.Equal(r.Causes[0].Nodes, []string{"w1", "w2"}) {
		t.Errorf("nodes %v", r.Causes[0].Nodes)
	}
}

// TestJSONLines checks that explain reads the rank and the pod from the separate fields of a
// collector's JSON line.
func TestJSONLines(t *testing.T) {
	r := explained(t, `{"log":"connection closed\n","kubernetes":{"pod_name":"train-worker-3"},"rank":7}`+"\n")
	if f := r.Causes[0]; !cmp.Equal(f.Nodes, []string{"train-worker-3"}) || !cmp.Equal(f.Ranks, []string{"7"}) {
		t.Errorf("nodes %v, ranks %v", f.Nodes, f.Ranks)
	}
}

// TestOrderOfCauses checks which message gives a finding its words if several messages name a
// cause: the deepest message with its own words.
func TestOrderOfCauses(t *testing.T) {
	for log, want := range map[string]string{
		"Failed to initialize NVML: Unknown Error\nUnable to determine the device handle for GPU 0000:81:00.0: Unknown Error\n":                                                                                       "gpu-lost: A GPU of this node (0000:81:00.0) no longer answers",
		"RuntimeError: CUDA error: OS call failed or operation not supported on this OS\nRuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized\n":                           "fabric-manager: The NVSwitch fabric of this node is not up, so CUDA does not start",
		"Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nEOFError\nTraceback (most recent call last):\n  File \"a.py\", line 1, in f\nOSError: [Errno 24] Too many open files\n":                   "fd-limit: A process on this node reached its limit of open files and sockets",
		"Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: host not found: Name or service not known\n":                                                                                  "dns: ",
		"Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: No slot '8' specified on host 'w2'\n":                                                                                         "hostfile-invalid: ",
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\nw1:51:88 [0] NCCL INFO Could not enable P2P between dev 1(=1e000) and dev 0(=1d000)\n":                                              "out-of-memory: ",
		"    sl = self._semlock = _multiprocessing.SemLock(\nOSError: [Errno 28] No space left on device\n":                                                                                                           "shm-too-small: ",
		"[E socket.cpp:860] [c10d] The client socket has failed to connect to any network address of (主节点IP, 29500).\n":                                                                                               "master-addr-wrong: The master's address is 主节点IP",
		"[2023-01-01 10:00:00] Running tokenizer on dataset\n[E ProcessGroupNCCL.cpp:475] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for\n": "collective-timeout: ",
	} {
		r := signatures(t).Explain([]Source{read("log", log)})
		if len(r.Causes) != 1 || !strings.HasPrefix(r.Causes[0].Cause+": "+r.Causes[0].Summary, want) {
			t.Errorf("%q: want %s, got %+v", log, want, r.Causes)
		}
		if strings.Contains(log, "tokenizer") && !strings.Contains(r.Causes[0].Fix[0], "ddp_timeout") {
			t.Errorf("%q: fix %q", log, r.Causes[0].Fix)
		}
	}
}

// TestTable checks that explain reads torchrun's table, which describes a rank on several lines.
func TestTable(t *testing.T) {
	const log = `Root Cause (first observed failure):
[0]:
  time      : 2024-11-02_21:03:02
  host      : w7.cluster
  rank      : 12 (local_rank: 4)
  exitcode  : -7 (pid: 2414397)
  error_file: <N/A>
  traceback : Signal 7 (SIGBUS) received by PID 2414397
`
	r := signatures(t).Explain([]Source{read("log", log)})
	if f := r.Causes[0]; f.Cause != "shm-too-small" || !cmp.Equal(f.Nodes, []string{"w7.cluster"}) || !cmp.Equal(f.Ranks, []string{"12"}) {
		t.Errorf("%s on %v, ranks %v", f.Cause, f.Nodes, f.Ranks)
	}
}
