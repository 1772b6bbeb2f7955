// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-multierror"
)

// brief returns "name:slots" for every host.
func brief(hosts []Host) string {
	var all []string
	for _, host := range hosts {
		all = append(all, fmt.Sprintf("%s:%d", host.Name, len(host.Slots)))
	}
	return strings.Join(all, " ")
}

func trapsOf(notes []Note) string {
	var all []string
	for _, note := range notes {
		all = append(all, note.ID)
	}
	return strings.Join(all, " ")
}

// TestParseAccepts holds lines that DeepSpeed v0.8.0 and later accept. Each row was also run
// through _parse_hostfile of DeepSpeed's runner.py on Python 3.11.
func TestParseAccepts(t *testing.T) {
	for _, c := range []struct{ text, want, notes string }{
		{"w slots=4", "w:4", ""},
		{"w slots=4\n", "w:4", ""},
		{"w\tslots=4\n", "w:4", ""},
		{" \t w   slots=4 \t \n", "w:4", ""},
		{"w2 slots=4\nw1 slots=2\n", "w2:4 w1:2", ""},
		{"# comment\n\n  # another\n \t \nw slots=4\n", "w:4", ""},
		{"w slots=4 # comment\n", "w:4", ""},
		{"w slots=4# comment\n", "w:4", ""},
		{"w slots=04\n", "w:4", ""},
		{"w slots=0\n", "w:0", "zero-slots"},
		// Anything may follow the digits.
		{"w slots=4 max_slots=8\n", "w:4", "ignored-text"},
		{"w slots=4,\n", "w:4", "ignored-text"},
		{"w slots=4x\n", "w:4", "ignored-text"},
		{"w slots=4.5\n", "w:4", "ignored-text"},
		{"w slots=1_0\n", "w:1", "ignored-text"},
		{"w slots=4 slots=8\n", "w:4", "ignored-text"},
		// Other line ends.
		{"a slots=1\r\nb slots=2\r\n", "a:1 b:2", "openmpi-line-ends"},
		{"a slots=1\rb slots=2", "a:1 b:2", "openmpi-line-ends"},
		{"a slots=1\n\r\nb slots=2\r\r\n", "a:1 b:2", "openmpi-line-ends"},
		{"a slots=1\x0b\n", "a:1", ""},
		// Characters that are white space in Python.
		{"w\u00a0slots=4\n", "w:4", ""},
		{"w\vslots=4\n", "w:4", ""},
		{"w\fslots=4\n", "w:4", ""},
		{"w\x1cslots=4\n", "w:4", ""},
		{"w\x1fslots=4\n", "w:4", ""},
		{"w\u0085slots=4\n", "w:4", ""},
		{"w\u2028slots=4\n", "w:4", ""},
		{"w\u3000slots=4\u2003\n", "w:4", ""},
		{"\u1680\u202f# comment\nw\u205fslots=4\n", "w:4", ""},
		// Characters that are not white space in Python and therefore part of the name.
		{"w\u200bx slots=4\n", "w\u200bx:4", ""},
		{"w\u180ex slots=4\n", "w\u180ex:4", ""},
		{"w slots=1²\n", "w:1", "ignored-text"},
		// Names that cause trouble later.
		{"w#1 slots=3\n", "w#1:3", "comment-in-name"},
		{"w:22 slots=2\n", "w:22:2", "pdsh-rcmd"},
		{"w1: slots=2\n", "w1::2", "pdsh-rcmd"},
		{"u@w:22 slots=2\n", "u@w:22:2", "pdsh-rcmd"},
		{"2001:db8::1 slots=2\n", "2001:db8::1:2", "pdsh-rcmd"},
		{"fe80::1 slots=2\n", "fe80::1:2", ""},
		{"[::1] slots=2\n", "[::1]:2", "pdsh-range"},
		{"n[1-2] slots=2\n", "n[1-2]:2", "pdsh-range"},
		{"a,b slots=2\n", "a,b:2", "pdsh-list"},
		{"-x slots=2\n", "-x:2", "pdsh-operator"},
		{"^x slots=2\n", "^x:2", "pdsh-operator"},
		{"/x/ slots=2\n", "/x/:2", "pdsh-operator"},
		{"me@-oProxyCommand=id slots=2\n", "me@-oProxyCommand=id:2", "pdsh-option"},
		{"w\"1 slots=2\n", "w\"1:2", "quoted-name"},
		{"u@w slots=2\n", "u@w:2", ""},
		{"\ufeffw slots=2\n", "\ufeffw:2", "byte-order-mark"},
		{"-x slots=0 x\n", "-x:0", "pdsh-operator zero-slots ignored-text"},
		// Names that are different strings are different hosts.
		{"node1 slots=1\nnode1.domain slots=1\nNODE1 slots=1\n", "node1:1 node1.domain:1 NODE1:1", ""},
	} {
		hosts, notes, err := Parse(strings.NewReader(c.text), "hostfile", "")
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if got := brief(hosts); got != c.want {
			t.Errorf("%q: %s, want %s", c.text, got, c.want)
		}
		if got := trapsOf(notes); got != c.notes {
			t.Errorf("%q: notes %q, want %q", c.text, got, c.notes)
		}
	}
}

func TestParseHost(t *testing.T) {
	hosts, notes, err := Parse(strings.NewReader("# two\nw1 slots=2\n\nw2 slots=0\n"), "hostfile", "")
	if err != nil {
		t.Fatal(err)
	}
	want := []Host{{Name: "w1", Slots: []int{0, 1}, Line: 2}, {Name: "w2", Slots: []int{}, Line: 4}}
	if diff := cmp.Diff(want, hosts); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(notes) != 1 || notes[0].Line != 4 {
		t.Errorf("notes %+v, want one on line 4", notes)
	}
}

// TestParseRefuses holds files that DeepSpeed refuses, with DeepSpeed's own errors.
func TestParseRefuses(t *testing.T) {
	bad := func(entry string) string {
		return "Hostfile contains a bad entry: " + entry + ", unable to proceed with launching"
	}
	undecodable := func(what string) string { return "UnicodeDecodeError: 'utf-8' codec can't decode " + what }
	for _, c := range []struct{ text, deepspeed, message string }{
		{"w\n", bad("w"), `"w" has no slots`},
		{"w:4\n", bad("w:4"), `"w:4" has no slots`},
		{"w slots=\n", bad("w slots="), "is not slots=N: write it in lower case"},
		{"w slots =4\n", bad("w slots =4"), "no blanks"},
		{"w slots= 4\n", bad("w slots= 4"), "no blanks"},
		{"w Slots=4\n", bad("w Slots=4"), "lower case"},
		{"w slots=-1\n", bad("w slots=-1"), "N in digits"},
		{"w slots=²\n", bad("w slots=²"), "N in digits"},
		{"w gpus=4\n", bad("w gpus=4"), `"gpus=4" is not slots=N`},
		{"w # slots=4\n", bad("w # slots=4"), `move it there, before "#"`},
		{"w max_slots=8 slots=4\n", bad("w max_slots=8 slots=4"), `move it there, before "max_slots=8"`},
		{"  w  x  \r\n", bad("w  x"), "is not slots=N"},
		{"slots=4\n", bad("slots=4"), "has no slots"},
		{"\ufeff# comment\n", bad("\ufeff# comment"), "byte order mark"},
		{"\ufeff\nw slots=4\n", bad("\ufeff"), "byte order mark"},
		{"w slots=4\nw slots=4\n", "Hostfile contains multiple entries for w, unable to proceed with launching", "already in line 1"},
		{"", "Hostfile is empty or not formatted correctly, unable to proceed with launching.", "no host in this file"},
		{"\n# w slots=4\n", "Hostfile is empty or not formatted correctly, unable to proceed with launching.", "no host in this file"},
		{"w slots=1048577\n", "", "more than 1048576 ranks"},
		{"w slots=99999999999999999999999999\n", "", "slots=99999999999999999999… makes"},
		{"a slots=1048576\nb slots=1\n", "", "more than 1048576 ranks"},
		{"w\xff slots=4\n", undecodable("byte 0xff in position 1: invalid start byte"), "is not UTF-8"},
		{"w\xc0\x80 slots=4\n", undecodable("byte 0xc0 in position 1: invalid start byte"), "is not UTF-8"},
		{"w\xf5 slots=4\n", undecodable("byte 0xf5 in position 1: invalid start byte"), "is not UTF-8"},
		{"w\xc3 slots=4\n", undecodable("byte 0xc3 in position 1: invalid continuation byte"), "is not UTF-8"},
		{"w\xe2\x82 slots=4\n", undecodable("bytes in position 1-2: invalid continuation byte"), "is not UTF-8"},
		{"w\xed\xa0\x80 slots=4\n", undecodable("byte 0xed in position 1: invalid continuation byte"), "is not UTF-8"},
		{"w slots=4 \xf0\x9f", undecodable("bytes in position 0-1: unexpected end of data"), "is not UTF-8"},
		{"# caf\xe9\nw slots=4\n", undecodable("byte 0xe9 in position 5: invalid continuation byte"), "is not UTF-8"},
		{"w\x00x slots=4\n", "", "not a text file"},
		{"\x7fELF\xff\x00\nw\nw\n", undecodable("byte 0xff in position 4: invalid start byte"), "not a text file"},
		{"\xff\xfew\x00 \x00", undecodable("byte 0xff in position 0: invalid start byte"), "UTF-16"},
	} {
		hosts, _, err := Parse(strings.NewReader(c.text), "hostfile", "")
		if len(hosts) > 0 {
			t.Errorf("%q: hosts beside an error: %v", c.text, hosts)
		}
		var line *LineError
		if !errors.As(err, &line) {
			t.Errorf("%q: %v, want a LineError", c.text, err)
			continue
		}
		if line.DeepSpeed != c.deepspeed {
			t.Errorf("%q: DeepSpeed says %q, want %q", c.text, line.DeepSpeed, c.deepspeed)
		}
		if !strings.Contains(line.Message, c.message) {
			t.Errorf("%q: %q does not say %q", c.text, line.Message, c.message)
		}
	}
}

// TestParseOlder holds lines that DeepSpeed before v0.8.0 accepts: two words, any key, and a number
// that int() reads. Comments are not allowed. Each row was also run through fetch_hostfile of
// v0.7.7 on Python 3.11.
func TestParseOlder(t *testing.T) {
	const (
		few   = "not enough values to unpack (expected 2, got 1)"
		many  = "too many values to unpack (expected 2)"
		noInt = "invalid literal for int() with base 10: "
	)
	for _, c := range []struct{ text, want, notes, deepspeed, message string }{
		{text: "w slots=4\n\n \t\nx gpus=2\n", want: "w:4 x:2"},
		{text: " w\u00a0\tslots=4_0 \n", want: "w:40"},
		{text: "w slots=+4\n", want: "w:4"},
		{text: "w =4\n", want: "w:4"},
		{text: "w slots=-1\n", want: "w:0", notes: "zero-slots"},
		{text: "w slots=0\n", want: "w:0", notes: "zero-slots"},
		{text: "#w slots=4\n", want: "#w:4", notes: "comment-in-name"},
		{text: "w slots=4 # c\n", deepspeed: many, message: "not even a comment"},
		{text: "w slots=4 max_slots=8\n", deepspeed: many, message: `allows nothing after "slots=N"`},
		{text: "# c\n", deepspeed: few, message: "does not support comments"},
		{text: "#\n", deepspeed: few, message: "does not support comments"},
		{text: "# two words\n", deepspeed: many, message: "does not support comments"},
		{text: "w\n", deepspeed: few, message: "has no slots"},
		{text: "w slots\n", deepspeed: few, message: "is not slots=N"},
		{text: "w slots=4=4\n", deepspeed: many, message: `allows nothing after "slots=N"`},
		{text: "w slots=\n", deepspeed: noInt + "''", message: "is not slots=N"},
		{text: "w slots=4x\n", deepspeed: noInt + "'4x'", message: `allows nothing after "slots=N"`},
		{text: "w slots=4\nw slots=4\n", deepspeed: "host w is already defined", message: "already in line 1"},
		{text: "w slots=99999999999999999999\n", message: "more than 1048576 ranks"},
		{text: "\n", message: "would silently train on this machine only"},
	} {
		hosts, notes, err := Parse(strings.NewReader(c.text), "hostfile", "0.7.7")
		if got := brief(hosts); got != c.want {
			t.Errorf("%q: %s, want %s", c.text, got, c.want)
		}
		if got := trapsOf(notes); got != c.notes {
			t.Errorf("%q: notes %q, want %q", c.text, got, c.notes)
		}
		var line *LineError
		switch refused := errors.As(err, &line); {
		case refused != (c.message != ""):
			t.Errorf("%q: %v", c.text, err)
		case refused && (line.DeepSpeed != c.deepspeed || !strings.Contains(line.Message, c.message)):
			t.Errorf("%q: %q and %q, want %q and %q", c.text, line.DeepSpeed, line.Message, c.deepspeed, c.message)
		}
	}
}

// TestParseQuotesTheLineSince094: before 0.9.4, the message lacked the f of an f-string.
func TestParseQuotesTheLineSince094(t *testing.T) {
	for release, quoted := range map[string]string{"0.8.0": "{line}", "0.9.3": "{line}", "0.9.4": "w x", "": "w x"} {
		_, _, err := Parse(strings.NewReader("w x\n"), "hostfile", release)
		want := "Hostfile contains a bad entry: " + quoted + ", unable to proceed with launching"
		if line := (*LineError)(nil); !errors.As(err, &line) || line.DeepSpeed != want {
			t.Errorf("%q: %v, want %q", release, err, want)
		}
	}
}

func TestParseReportsEveryLine(t *testing.T) {
	_, _, err := Parse(strings.NewReader("w1 slots=8\nw2\r\nw1 slots=4\n# fine\nw3 Slots=8\n"), "cluster/hostfile", "")
	var all *multierror.Error
	if !errors.As(err, &all) || len(all.Errors) != 3 {
		t.Fatalf("%v, want three errors", err)
	}
	want := `cluster/hostfile:2: "w2" has no slots: write "NAME slots=N", where N is the number of accelerators
cluster/hostfile:3: host "w1" is already in line 1: remove one of the two lines
cluster/hostfile:5: "Slots=8" is not slots=N: write it in lower case, with N in digits and no blanks around "="`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestParseStopsAtNoText: a program that was named by mistake gives one error, however many lines
// it has.
func TestParseStopsAtNoText(t *testing.T) {
	_, _, err := Parse(strings.NewReader("\x7fELF\x00\nx\ny\n"), "/bin/ls", "")
	if want := "/bin/ls: not a text file (it contains a NUL byte): check the path"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestReadFileAtTheDefaultPath: the user did not name the default path, so the error does not ask
// the user to correct it.
func TestReadFileAtTheDefaultPath(t *testing.T) {
	if _, err := os.Stat(DefaultPath); err == nil {
		t.Skip(DefaultPath + " is there")
	}
	_, _, err := ReadFile(DefaultPath, "")
	if err == nil || !strings.Contains(err.Error(), "name yours with -H FILE") || strings.Contains(err.Error(), "correct its path") {
		t.Errorf("got %v", err)
	}
}

// endless is a reader that never ends, like /dev/zero.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestParseStopsReading(t *testing.T) {
	_, _, err := Parse(endless{}, "hostfile", "")
	if err == nil || !strings.Contains(err.Error(), "larger than 16 MiB") {
		t.Errorf("%v, want a file too large", err)
	}
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

func TestParseReadError(t *testing.T) {
	stale := errors.New("stale file handle")
	if _, _, err := Parse(broken{stale}, "hostfile", ""); !errors.Is(err, stale) {
		t.Errorf("%v, want the reader's own error", err)
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "hostfile")
	if err := os.WriteFile(good, []byte("w1 slots=2\nw2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := ReadFile(good, "")
	if want := good + `:2: "w2" has no slots`; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s…", err, want)
	}

	const warns = "Unable to find hostfile, will proceed with training with local resources only."
	for _, c := range []struct {
		path string
		is   error
		says string
	}{
		{filepath.Join(dir, "missing"), fs.ErrNotExist, "not found"},
		{filepath.Join(good, "below-a-file"), nil, "not found"},
		{dir, nil, "is a directory and not a hostfile: name a file with -H"},
		{os.DevNull, nil, "is a device or pipe and not a hostfile: name a file with -H"},
	} {
		_, _, err := ReadFile(c.path, "")
		var line *LineError
		if !errors.As(err, &line) || line.DeepSpeed != warns || !strings.HasPrefix(err.Error(), c.path+": ") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q, and DeepSpeed's warning about its single-node run", c.path, err, c.says)
		}
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v is not %v", c.path, err, c.is)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"w1 slots=8\nw2 slots=8\n", "# c\n\nw\tslots=4 # c\r\n", "w slots=4x\rw slots=4", "w max_slots=8 slots=4", "w slots=",
		"\ufeffw slots=2", "w\u00a0slots=4", "w\x1cslots=0", "\xff\xfew", "w slots=4 \xf0\x9f", "[::1] slots=1\na,b slots=1\n-x slots=1",
		"w slots=99999999999999999999", "w slots=1048576\nx slots=1", "\x85", "'w\" slots=1",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, old bool) {
		release := ""
		if old {
			release = "0.7.7"
		}
		hosts, notes, err := Parse(strings.NewReader(string(data)), "hostfile", release)
		if err != nil {
			var line *LineError
			if !errors.As(err, &line) || line.Message == "" || hosts != nil {
				t.Fatalf("%v with %v", err, hosts)
			}
			return
		}
		var again strings.Builder
		for _, host := range hosts {
			fmt.Fprintf(&again, "%s slots=%d\n", host.Name, len(host.Slots))
		}
		same, _, err := Parse(strings.NewReader(again.String()), "hostfile", release)
		if err != nil || brief(same) != brief(hosts) {
			t.Fatalf("%q: %s, and written anew %s (%v)", data, brief(hosts), brief(same), err)
		}
		for _, note := range notes {
			if note.Line < 1 || note.Message == "" || note.ID == "" {
				t.Fatalf("note %+v", note)
			}
		}
	})
}
