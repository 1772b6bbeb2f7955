// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// hostile lists words that a shell, ssh or a terminal would interpret.
var hostile = []string{
	"plain", "$(touch pwned)", "`touch pwned`", "x;touch pwned;", "x&touch pwned&", "x|touch pwned", "x\ntouch pwned\n", "x\rtouch pwned",
	"';touch pwned;'", `";touch pwned;"`, `\";touch pwned;\"`, `\';touch pwned;\'`, `'"'"';touch pwned;'`, "$(touch${IFS}pwned)", "x#\ntouch pwned",
	"-oProxyCommand=touch pwned", "-oProxyCommand=touch${IFS}pwned", "user@-oProxyCommand=touch${IFS}pwned", "--rsh=touch pwned", "-rf", "--", "",
	"*", "?[a]", "~", "~root", "{a,b}", "a b", " ", "\t", "!!", "!touch", "#x", "$HOME", "${x:=$(touch pwned)}", "<(touch pwned)", "%s %d %%", "{node} {ssh}", "$host",
	"\\", "\\\\", "a\\", "'", "\"", "''", "it's", "ü ñ 你好", "a\u00a0b", "a\u202eb", "\x1b[201~touch pwned\n", "a\x00b", "\xff\xfe", "EOF\ntouch pwned\nEOF",
	"w[1-2]", "^/etc/passwd", "a,b", "/re/", strings.Repeat("x'", 300),
}

// sandbox returns a directory with programs. Its ssh, pdsh and sudo pass their arguments on as the
// real programs would, and its tell records its arguments.
func sandbox(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, script := range map[string]string{
		// ssh accepts options anywhere before the command, and sshd joins the words of the command.
		"ssh": `while :; do case $1 in -p) shift 2;; -oProxyCommand=*) eval "${1#*=}"; exit;; -*) shift;; *@-*) eval "${1#*=}"; exit;; *) break;; esac; done
shift; exec sh -c "$*"`,
		"pdsh": `shift 2; test "$1" = -w || exit 9
case $2 in -*|*@-*|^*|/*) touch pwned;; esac
shift 2; exec sh -c "$*"`,
		"sudo": `exec "$@"`, "rsync": `exec tell "$@"`, "tar": `test "$3" = -xf || { shift 4; exec tell "$@"; }`,
		// In programs that enter a node or a container, the command follows the options.
		"srun": enters, "kubectl": enters, "docker": enters,
		"tell": `for word; do printf '%s\0' "$word"; done >> "$RECEIVED"`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const enters = `while test "$1" != sh; do shift; done; exec "$@"`

// paste runs a line as if it were typed. It returns the recorded arguments and the files that the
// line created.
func paste(t *testing.T, bin, line string) (received []string, made []os.DirEntry) {
	t.Helper()
	dir, err := os.MkdirTemp(bin, "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	command := exec.CommandContext(t.Context(), "sh", "-c", line)
	command.Dir = filepath.Join(dir, "work")
	record := filepath.Join(dir, "received")
	command.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=/nowhere", "RECEIVED=" + record}
	if err := os.Mkdir(command.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	command.Run() // no error check: the recorded arguments show whether the line worked
	if made, err = os.ReadDir(command.Dir); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(record) // no error check: the file is missing if nothing was recorded
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), made
}

// pasted caches the results of lines that created no file. The cache helps because many words are
// refused with the same line.
type pasted struct {
	bin      string
	received map[string][]string
}

func (p pasted) line(t *testing.T, line string) []string {
	t.Helper()
	received, known := p.received[line]
	if !known {
		var made []os.DirEntry
		if received, made = paste(t, p.bin, line); len(made) > 0 {
			t.Errorf("%s is made where this is pasted: %s", made[0].Name(), line)
		}
		p.received[line] = received
	}
	return received
}

// TestNothingOfAnArgumentRuns pastes hostile words of every type at every quoting depth. Each word
// must arrive unchanged, or the line must pass on nothing.
func TestNothingOfAnArgumentRuns(t *testing.T) {
	lines := pasted{sandbox(t), map[string][]string{}}
	types := map[string]func(string) Arg{
		"Word": func(s string) Arg { return Word(s) }, "Path": func(s string) Arg { return Path(s) },
		"Package": func(s string) Arg { return Package(s) }, "Operand": func(s string) Arg { return Operand(s) },
		"Host": func(s string) Arg { return Host(s) }, "Name": func(s string) Arg { return Name(s) },
		"Variable": func(s string) Arg { return Variable(s) }, "Text": func(s string) Arg { return Text(s) },
		"Setting": func(s string) Arg { return Setting{"A", s} }, "setting of": func(s string) Arg { return Setting{s, "b"} },
		"list": func(s string) Arg { return List[Path](" ", []string{s}) }, "Code": func(s string) Arg { return Code("%s", Path(s)) },
	}
	one, two := to("w1"), Audience{Nodes: []string{"w1", "w2"}, Port: 22, IsRoot: func(string) bool { return false }}
	for name, typed := range types {
		refusals, arrivals := 0, 0
		for _, word := range hostile {
			arg, want := typed(word), word
			switch name {
			case "Setting":
				want = "A=" + word
			case "setting of":
				want = word + "=b"
			}
			for _, line := range []string{
				asPasted(Here("tell %s", arg), one),
				asPasted(On("sudo tell %s", arg), one),
				asPasted(On("sudo tell %s && true", arg), two),
				asPasted(On("ssh w3 true; tell '%s'", arg), one),
				asPasted(On(`tell "%s" | cat`, arg), two),
				asPasted(On("true `tell %s`", arg).At("w9"), one),
				asPasted(EachHost("true $host; tell %s", arg), one),
			} {
				switch received := lines.line(t, line); {
				case slices.Equal(received, []string{want}):
					arrivals++
				case slices.Equal(received, []string{""}) && strings.Contains(line, "# "):
					refusals++
				default:
					t.Errorf("%s %q arrives as %q: %s", name, word, received, line)
				}
			}
			for _, line := range []string{
				asPasted(On("tell %s:%s", arg, arg).At("w9"), two),
				asPasted(On("tell {x} '{x}'").Bind(map[string]Arg{"x": arg}), one),
				asPasted(Here("cat <<EOF\n%s\nEOF", arg), one),
				asPasted(Here("tell   # see %s", arg).Remark("and %s", arg), two),
				asPasted(Note("see %s", arg), one),
			} {
				lines.line(t, line)
				lines.line(t, strings.ReplaceAll(line, "# ", "tell ")) // the same line in a shell that reads a comment as code
			}
		}
		if refusals == 0 || arrivals == 0 {
			t.Errorf("%s: %d arrived, %d were refused", name, arrivals, refusals)
		}
	}
}

// TestNothingOfANameRuns pastes hostile names of hosts and files. Each must arrive unchanged, or
// the line must pass on nothing.
func TestNothingOfANameRuns(t *testing.T) {
	lines := pasted{sandbox(t), map[string][]string{}}
	for _, word := range hostile {
		for _, to := range []Audience{to(word), to("w1", word), to(word, "user@"+word)} {
			to.Hostfile = word
			for _, command := range []Command{
				On("tell {node} {nodes} {host} {hosts} {hostfile}"), On("tell '{node}' \"{nodes}\""), On("tell").At(word), On("tell").At("w1", word),
				Here("tell {node} {nodes} {host} {hosts} {hostfile}"), Here("ssh {ssh_port}{node} tell"), EachHost("ssh $host tell {hostfile}"),
				EachHost("true").At(word), Console("tell   # on {node}"), Note("take {nodes} out of {hostfile}"), Stated("{ssh} tell '{node}' {hostfile}"),
				CopyTo(word), CopyTo("/a"), CopyFrom(word, "/a"), CopyFrom("w1", word),
				Pip{Python: word}.List(), Pip{Python: "tell", Managed: true}.Run("x %s", Package(word)),
				Pip{Python: "tell"}.Install([]Requirement{{word, word}})[0], Pip{Python: "tell"}.Install([]Requirement{{word, "1+" + word}})[0],
				Pip{Python: "tell"}.Install([]Requirement{{word, "1+cpu"}})[0],
			} {
				lines.line(t, asPasted(command, to))
			}
		}
	}
}

// TestNothingOfACopyRuns copies files with hostile names in every way. Each file must be packed
// under its own name, or the line must pack nothing.
func TestNothingOfACopyRuns(t *testing.T) {
	lines := pasted{sandbox(t), map[string][]string{}}
	for way, audience := range beyondSSH("w1", "w2") {
		arrivals := 0
		for _, word := range hostile {
			for _, command := range []Command{CopyTo("/" + word), CopyFrom("w2", "/"+word)} {
				line := asPasted(command, audience)
				received := slices.Compact(lines.line(t, line)) // each node runs its own tar
				if slices.Equal(received, []string{"./" + word}) {
					arrivals++
				} else if !slices.Equal(received, []string{""}) || !strings.HasPrefix(line, "# by hand") {
					t.Errorf("%s: %q is packed as %q: %s", way, word, received, line)
				}
			}
			entered := to("w1", word)
			entered.Inside = func(string) []string { return []string{"docker", "exec", word} }
			lines.line(t, asPasted(CopyTo("/a"), entered))
			lines.line(t, asPasted(CopyFrom(word, "/a"), entered))
		}
		if arrivals == 0 {
			t.Errorf("%s: nothing arrived", way)
		}
	}
}

// TestTheSandboxTells checks that the programs of the sandbox really do what a hostile word asks
// for.
func TestTheSandboxTells(t *testing.T) {
	bin := sandbox(t)
	if received, _ := paste(t, bin, "ssh -p 22 w1 \"tell 'a b'\" c"); !slices.Equal(received, []string{"a b", "c"}) {
		t.Errorf("received %q", received)
	}
	for _, line := range []string{
		"touch pwned", "ssh w1 'touch pwned'", "ssh '-oProxyCommand=touch pwned' w1", "ssh 'user@-oProxyCommand=touch pwned' true",
		"pdsh -R ssh -w w1 'touch pwned'", "pdsh -R ssh -w -w1 true", "sudo touch pwned",
		"srun --overlap sh -c 'touch pwned'", "kubectl exec w1 -- sh -c 'touch pwned'", "docker exec -i train sh -c 'touch pwned'",
	} {
		if _, made := paste(t, bin, line); len(made) == 0 {
			t.Errorf("nothing is made where this is pasted: %s", line)
		}
	}
}

// asPasted returns the text that a person may paste. A note becomes a comment.
func asPasted(c Command, to Audience) string {
	line, isCommand := c.Addressed(to)
	if !isCommand {
		return "# " + line
	}
	return line
}
