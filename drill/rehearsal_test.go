// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"preflight/facts"
)

// overSSH lists the variables that DeepSpeed sets for pdsh.
var overSSH = []facts.Setting{{Name: "PDSH_RCMD_TYPE", Value: "ssh"}}

// standIn creates a program and puts its directory first in PATH.
func standIn(t *testing.T, name, body string) string {
	t.Helper()
	path := script(t, name, body)
	t.Setenv("PATH", filepath.Dir(path)+":"+os.Getenv("PATH"))
	return path
}

// fakeSSH replaces ssh to hosts that do not exist. In it, $host is the host, and "$@" is the
// command to run there. The question for ssh's settings fails.
const fakeSSH = `while :; do case "$1" in
-G) exit 1 ;;
-l) shift 2 ;;
-*) shift ;;
*) break ;;
esac; done
host=$1; shift
`

// rehearse runs the real pdsh.
func rehearse(t *testing.T, ssh string, r Rehearsal) facts.Rehearsal {
	t.Helper()
	standIn(t, "ssh", fakeSSH+ssh)
	if r.Program == "" {
		r.Program = "pdsh"
	}
	if r.Limit == 0 {
		r.Limit = time.Minute
	}
	r.Env = append(r.Env, overSSH...)
	return Rehearse(t.Context(), r)
}

// loose ignores values that differ from run to run.
var loose = cmp.Options{cmpopts.IgnoreFields(facts.Rehearsal{}, "Command", "Seconds"), cmpopts.EquateEmpty()}

func node(name string, ranks ...int) facts.RehearsalNode {
	return facts.RehearsalNode{Node: name, Ranks: ranks}
}

// TestRehearse runs the real pdsh over hosts that answer, or fail to answer, in every way.
func TestRehearse(t *testing.T) {
	tests := []struct {
		name, ssh string
		rehearsal Rehearsal
		want      facts.Rehearsal
	}{
		{"all is well", `"$@"`, Rehearsal{Hosts: []string{"w2", "w1", "10.0.0.3", "fe80::1"}},
			facts.Rehearsal{Nodes: []facts.RehearsalNode{node("w2", 0), node("w1", 1), node("10.0.0.3", 2), node("fe80::1", 3)}}},
		{"one domain, which pdsh leaves out", `"$@"`, Rehearsal{Hosts: []string{"w1.lab.org", "w2.lab.org"}},
			facts.Rehearsal{Nodes: []facts.RehearsalNode{node("w1.lab.org", 0), node("w2.lab.org", 1)}}},
		{"two domains", `"$@"`, Rehearsal{Hosts: []string{"w1.lab.org", "w1.home.org"}},
			facts.Rehearsal{Nodes: []facts.RehearsalNode{node("w1.lab.org", 0), node("w1.home.org", 1)}}},
		{"one name with and without its domain", `"$@"`, Rehearsal{Hosts: []string{"w1", "w1.lab.org"}},
			facts.Rehearsal{Nodes: []facts.RehearsalNode{node("w1", 0), node("w1.lab.org", 1)}}},
		{"two users of one host", `"$@"`, Rehearsal{Hosts: []string{"a@w1", "b@w1"}},
			facts.Rehearsal{Nodes: []facts.RehearsalNode{node("a@w1", 0), node("b@w1", 1)}}},
		{"no labels", `"$@"`, Rehearsal{Hosts: []string{"w1", "w2"}, LauncherArgs: []string{"-N"}},
			facts.Rehearsal{Nodes: []facts.RehearsalNode{node("w1", 0), node("w2", 1)}}},
		{"a range", `"$@"`, Rehearsal{Hosts: []string{"n[1-2]", "w3"}},
			facts.Rehearsal{Nodes: []facts.RehearsalNode{node("n[1-2]"), node("w3", 2), node("n1", 0), node("n2", 1)}}},
		{"an exclusion", `"$@"`, Rehearsal{Hosts: []string{"w1", "-w1", "w2"}},
			facts.Rehearsal{Nodes: []facts.RehearsalNode{node("w1"), node("-w1"), node("w2", 0)}}},
		{"a port", `"$@"`, Rehearsal{Hosts: []string{"w1:22"}},
			facts.Rehearsal{ExitCode: 1, Nodes: []facts.RehearsalNode{node("w1:22")}, Complaints: []string{
				`No such rcmd module "w1"`, `pdsh@HERE: Failed to register rcmd "w1" for "22"`}}},
		{"greetings", `[ $host = w2 ] && { echo 'Welcome: to w2'; echo; printf "no end"; echo "and: yet" >&2; }; "$@"`, Rehearsal{Hosts: []string{"w1", "w2"}},
			facts.Rehearsal{Nodes: []facts.RehearsalNode{node("w1", 0),
				{Node: "w2", Ranks: []int{1}, Noise: []string{"Welcome: to w2", "no end"}, Errors: []string{"and: yet"}}}}},
		{"no login", `[ $host = w2 ] && { echo "w2: Permission denied (publickey)." >&2; exit 255; }; "$@"`, Rehearsal{Hosts: []string{"w1", "w2"}},
			facts.Rehearsal{ExitCode: 255, Nodes: []facts.RehearsalNode{node("w1", 0),
				{Node: "w2", Errors: []string{"w2: Permission denied (publickey).", "ssh exited with exit code 255"}}}}},
		{"no shell", `[ $host = w2 ] && exit 0; "$@"`, Rehearsal{Hosts: []string{"w1", "w2"}},
			facts.Rehearsal{Nodes: []facts.RehearsalNode{node("w1", 0), node("w2")}}},
		{"a node that hangs", `[ $host = w2 ] && sleep 300; "$@"`, Rehearsal{Hosts: []string{"w1", "w2"}, Limit: time.Second},
			facts.Rehearsal{ExitCode: -1, Problem: "killed because it had not finished after 1 s", Nodes: []facts.RehearsalNode{node("w1", 0), node("w2")}}},
		{"PDSH_COMMAND_TIMEOUT", `[ $host = w2 ] && exec sleep 300; "$@"`,
			Rehearsal{Hosts: []string{"w1", "w2"}, Env: []facts.Setting{{Name: "PDSH_COMMAND_TIMEOUT", Value: "1"}}},
			facts.Rehearsal{ExitCode: 254, Complaints: []string{"sending SIGTERM to ssh w2", "sending signal 15 to w2 [ssh] pid HERE"},
				Nodes: []facts.RehearsalNode{node("w1", 0), {Node: "w2", Errors: []string{"command timeout", "ssh killed by signal 15"}}}}},
		{"a flood", `[ $host = w2 ] && { head -c 300000 /dev/zero | tr '\0' x; echo; seq 30; }; "$@"`, Rehearsal{Hosts: []string{"w1", "w2"}},
			facts.Rehearsal{Nodes: []facts.RehearsalNode{node("w1", 0), {Node: "w2", Ranks: []int{1}, Noise: flood()}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := rehearse(t, tt.ssh, tt.rehearsal)
			for i, line := range got.Complaints {
				got.Complaints[i] = ofThisRun.ReplaceAllString(line, "${1}HERE")
			}
			if diff := cmp.Diff(tt.want, got, loose); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRehearseExchangesKeysQuickly checks which arguments pdsh's ssh gets. The user's own come last,
// but have been asked for the key exchanges. Arguments that replace pdsh's own stay alone.
func TestRehearseExchangesKeysQuickly(t *testing.T) {
	const hybrid, x25519 = "sntrup761x25519-sha512", "curve25519-sha256"
	ssh := `case "$*" in
"-v -G "*"ecdh"*) echo kexalgorithms ecdh-sha2-nistp256 ;;
"-v -G "*) echo kexalgorithms ` + hybrid + "," + x25519 + ` ;;
*" -G "*) exit 1 ;;
*) shift; echo "$*" >&2 ;;
esac`
	quick := "-o KexAlgorithms=" + x25519 + "," + hybrid
	tests := []struct{ name, value, want string }{
		{"PDSH_SSH_ARGS_APPEND", "-p 2222", quick + " -p 2222"},
		{"PDSH_SSH_ARGS_APPEND", "-oKexAlgorithms=ecdh-sha2-nistp256", "-oKexAlgorithms=ecdh-sha2-nistp256"},
		{"PDSH_SSH_ARGS_APPEND", "", quick},
		{"PDSH_SSH_ARGS", "-2 -a -x -luser %h", ""},
	}
	for _, tt := range tests {
		standIn(t, "ssh", ssh)
		r := Rehearsal{Program: "pdsh", Hosts: []string{"w1"}, Limit: time.Minute, Env: append([]facts.Setting{{Name: tt.name, Value: tt.value}}, overSSH...)}
		got := Rehearse(t.Context(), r).Nodes[0].Errors
		if len(got) == 0 || strings.TrimSpace(strings.Split(got[0], "-2 -a ")[0]) != tt.want {
			t.Errorf("%s=%s: %q, want %q", tt.name, tt.value, got, tt.want)
		}
	}
}

// ofThisRun matches a host name or a process ID in pdsh's output.
var ofThisRun = regexp.MustCompile(`(pdsh@|pid )[\w-]+`)

func flood() []string {
	lines := []string{strings.Repeat("x", keptLine-len("w2: "))}
	for i := 1; len(lines) < keptLines; i++ {
		lines = append(lines, fmt.Sprint(i))
	}
	return append(lines, "…")
}

// TestRehearseWithAnotherProgram tries programs other than pdsh, and a broken pdsh.
func TestRehearseWithAnotherProgram(t *testing.T) {
	const token = `for last; do :; done; token=${last%-*}; `
	hosts := []facts.RehearsalNode{node("w1"), node("w2")}
	tests := []struct {
		name, pdsh string
		want       facts.Rehearsal
	}{
		{"ranks are mixed up", token + `echo "w1: $token-1"; echo "w2: $token-0"; echo "w2: $token-1"; echo "w2: $token-0"`,
			facts.Rehearsal{Nodes: []facts.RehearsalNode{node("w1", 1), node("w2", 0, 1)}}},
		{"names that nobody asked for", token + `echo "n2: $token-1"; echo "n1: $token-0"; echo "n3: hello"`,
			facts.Rehearsal{Nodes: append(slices.Clone(hosts), facts.RehearsalNode{Node: "n3", Noise: []string{"hello"}}, node("n1", 0), node("n2", 1))}},
		{"a session of its own", `read _ _ _ _ _ session _ </proc/$$/stat; [ $session = $$ ] || exit 1`, facts.Rehearsal{Nodes: hosts}},
		{"no rank at all", token + `echo "w1: $token-%n"; echo "w2: $token-99999999999999999999"`,
			facts.Rehearsal{Nodes: []facts.RehearsalNode{{Node: "w1", Noise: []string{"TOKEN-%n"}}, {Node: "w2", Noise: []string{"TOKEN-99999999999999999999"}}}}},
		{"too many ranks and names", token + `for i in $(seq 0 300); do echo "w1: $token-$i"; echo "n$i: $token-$i"; done`,
			facts.Rehearsal{Nodes: crowd(), Complaints: append(slices.Repeat([]string{"one too many"}, keptLines), "…")}},
		{"refuses", `echo "pdsh@head: module path \"/usr/lib/pdsh\" insecure." >&2; exit 1`,
			facts.Rehearsal{ExitCode: 1, Nodes: hosts, Complaints: []string{`pdsh@head: module path "/usr/lib/pdsh" insecure.`}}},
		{"no text", `printf 'w1: \377\033[31m\r\n'; printf 'w1: \n \n'`,
			facts.Rehearsal{Nodes: []facts.RehearsalNode{{Node: "w1", Noise: []string{"�\x1b[31m"}}, node("w2")}}},
		{"is killed", `kill -SEGV $$`, facts.Rehearsal{ExitCode: -1, Problem: "ended by signal: segmentation fault", Nodes: hosts}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Rehearse(t.Context(), Rehearsal{Limit: time.Minute, Program: script(t, "pdsh", tt.pdsh), Hosts: []string{"w1", "w2"}})
			token, _, _ := strings.Cut(got.Command[len(got.Command)-1], "-%n")
			for _, node := range got.Nodes {
				for i, line := range node.Noise {
					node.Noise[i] = strings.Replace(line, token, "TOKEN", 1)
				}
			}
			for i, line := range got.Complaints {
				if strings.Contains(line, token) {
					got.Complaints[i] = "one too many"
				}
			}
			if diff := cmp.Diff(tt.want, got, loose); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// crowd returns the part that is kept of 301 ranks and as many names.
func crowd() []facts.RehearsalNode {
	nodes := []facts.RehearsalNode{node("w1"), node("w2")}
	for rank := range keptLines {
		nodes[0].Ranks = append(nodes[0].Ranks, rank)
	}
	for rank := range keptStrangers {
		nodes = append(nodes, node(fmt.Sprintf("n%d", rank), rank))
	}
	return nodes
}

func TestRehearseWithoutPDSH(t *testing.T) {
	got := Rehearse(t.Context(), Rehearsal{Limit: time.Minute, Program: filepath.Join(t.TempDir(), "pdsh"), Hosts: []string{"w1"}})
	if !strings.Contains(got.Problem, "no such file") || got.ExitCode != -1 || len(got.Nodes) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestRehearsalCommand checks that the command line is DeepSpeed's own, and that arguments reach
// pdsh unchanged.
func TestRehearsalCommand(t *testing.T) {
	r := Rehearsal{Program: "/usr/bin/pdsh", Hosts: []string{"w1", "u@w2"}, LauncherArgs: []string{"-t", "5 $(reboot)"}}
	want := []string{"/usr/bin/pdsh", "-S", "-f", "1024", "-w", "w1,u@w2", "-t", "5 $(reboot)", "echo", "token-%n"}
	if diff := cmp.Diff(want, r.command("token")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRehearsalAsksNobody checks that ssh cannot prompt, because it has no terminal and no window.
func TestRehearsalAsksNobody(t *testing.T) {
	t.Setenv("DISPLAY", ":0")
	t.Setenv("SSH_ASKPASS", "/usr/bin/askpass")
	t.Setenv("SSH_ASKPASS_REQUIRE", "force")
	got := rehearse(t, `(: </dev/tty) 2>/dev/null && echo terminal
echo "display=$DISPLAY askpass=$SSH_ASKPASS require=$SSH_ASKPASS_REQUIRE"
"$@"`, Rehearsal{Hosts: []string{"w1"}})
	want := []facts.RehearsalNode{{Node: "w1", Ranks: []int{0}, Noise: []string{"display= askpass= require=never"}}}
	if diff := cmp.Diff(want, got.Nodes, loose); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRehearsalLeavesNothingBehind checks that everything that pdsh has started ends with the
// rehearsal, although each ssh has its own session. It checks this at the time limit and on an
// interrupt.
func TestRehearsalLeavesNothingBehind(t *testing.T) {
	for name, limit := range map[string]time.Duration{"at the limit": time.Second, "interrupted": time.Minute} {
		t.Run(name, func(t *testing.T) {
			started := t.TempDir()
			standIn(t, "ssh", fakeSSH+`trap '' TERM INT HUP; setsid sleep 300 & echo $$ $! > `+started+`/part.$host; mv `+started+`/part.$host `+started+`/$host; wait`)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if limit == time.Minute {
				go func() {
					for ctx.Err() == nil {
						if all, _ := filepath.Glob(started + "/w?"); len(all) == 3 {
							cancel()
						}
						time.Sleep(time.Millisecond)
					}
				}()
			}
			got := Rehearse(ctx, Rehearsal{Program: "pdsh", Hosts: []string{"w1", "w2", "w3"}, Env: overSSH, Limit: limit})
			if got.Problem == "" || got.Seconds > limit.Seconds()+5 {
				t.Errorf("%+v", got)
			}
			files, _ := filepath.Glob(started + "/w?")
			if len(files) != 3 {
				t.Fatalf("%d of 3 were started", len(files))
			}
			for _, file := range files {
				pids, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for _, pid := range strings.Fields(string(pids)) {
					for end := time.Now().Add(10 * time.Second); alive(pid); time.Sleep(time.Millisecond) {
						if time.Now().After(end) {
							t.Fatalf("process %s of %s is still there", pid, file)
						}
					}
				}
			}
		})
	}
}
