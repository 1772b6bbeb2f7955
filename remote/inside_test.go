// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/testhosts/remotetest"
)

// inside starts an agent on n through the program that words name.
func inside(t *testing.T, n *remotetest.Node, limit time.Duration, words ...string) (*Agent, *Trace, *Error) {
	t.Helper()
	client, conn, trace := testClient(t), connect(t, n), &Trace{}
	client.options.In = func(string) []string { return words }
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	agent, err := client.bootstrap(ctx, conn, "w1", trace)
	if agent != nil {
		t.Cleanup(func() { agent.Close() })
	}
	return agent, trace, err
}

// engine returns a program on n that runs text. In text, "$@" is the command to run inside, with
// another home directory than the login's.
func engine(t *testing.T, n *remotetest.Node, text string) (path string) {
	t.Helper()
	path = filepath.Join(n.Home, "engine of mine")
	remotetest.Script(t, path, `HOME="`+n.Home+`/inside"; export HOME; mkdir -p "$HOME"; printf "%s\0" "$@" >"$HOME/words"; while [ "$1" != /bin/sh ]; do shift; done; `+text)
	return path
}

// TestWordsGoInsideUnparsed: all kinds of words arrive unchanged through every login shell. The
// agent runs inside the container, whether the container already has it or not.
func TestWordsGoInsideUnparsed(t *testing.T) {
	hostile := []string{"exec", "-i", "a b", "it's", `"`, "$(touch pwned)", "`touch pwned`", ";touch pwned", "|", "&", ">pwned", "*", "~", "!!", "\\", `\n`, "é 容器 🐋", "-n", "--", "{node}", "%s", "#", " "}
	for _, shell := range []string{"sh", "bash", "dash", "zsh", "ksh", "tcsh", "fish"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("NOT CHECKED: %s is not here", shell)
			continue
		}
		t.Run(shell, func(t *testing.T) {
			remotetest.NoLeaks(t)
			n := &remotetest.Node{Home: t.TempDir(), Shell: []string{path, "-c"}}
			program := engine(t, n, `exec "$@"`)
			for _, cold := range []bool{true, false} {
				agent, trace, failure := inside(t, n, 20*time.Second, append([]string{program}, hostile...)...)
				if failure != nil {
					t.Fatal(failure)
				}
				if trace.Delivered != cold || len(trace.Noise) > 0 || !strings.HasPrefix(trace.Path, n.Home+"/inside/") || trace.Inside[0] != program {
					t.Errorf("%+v", trace)
				}
				if err := agent.Close(); err != nil {
					t.Error(err)
				}
			}
			words, err := os.ReadFile(n.Home + "/inside/words")
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Split(string(words), "\x00")
			if diff := cmp.Diff(append(slices.Clone(hostile), "/bin/sh", "-c"), got[:min(len(got), len(hostile)+2)]); diff != "" {
				t.Errorf("words (-want +got)\n%s", diff)
			}
			if left, _ := filepath.Glob(n.Home + "/*pwned*"); left != nil {
				t.Errorf("a shell has read a word: %q", left)
			}
		})
	}
}

// TestEntranceFailures: each obstacle on the way into the ranks' container gets its own cause, at
// its stage.
func TestEntranceFailures(t *testing.T) {
	says := func(words string) string { return "cat >&2 <<'END'\n" + words + "\nEND\nexit 1" }
	for name, c := range map[string]struct {
		engine string // "" for none
		stage  Stage
		cause  Cause
		text   string
	}{
		"no program":        {"", StageInside, NoEngine, "the node has no"},
		"docker's socket":   {says("permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock"), StageInside, EngineDenied, ""},
		"sudo":              {says("sudo: a password is required"), StageInside, EngineDenied, ""},
		"nsenter as a user": {says("nsenter: cannot open /proc/1/ns/mnt: Permission denied"), StageInside, EngineDenied, ""},
		"no dockerd":        {says("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"), StageInside, EngineDown, ""},
		"no containerd":     {says(`time="…" level=fatal msg="cannot access containerd socket \"/run/containerd/containerd.sock\": no such file or directory"`), StageInside, EngineDown, ""},
		"docker's stranger": {says("Error response from daemon: No such container: train"), StageInside, NoContainer, ""},
		"podman's stranger": {says(`Error: no container with name or ID "train" found: no such container`), StageInside, NoContainer, ""},
		"nerdctl's":         {says(`time="…" level=fatal msg="no such container train"`), StageInside, NoContainer, ""},
		"apptainer's":       {says("FATAL:   could not open image /x.sif: failed to retrieve path for /x.sif: lstat /x.sif: no such file or directory"), StageInside, NoContainer, ""},
		"enroot's":          {says("[ERROR] No such file or directory: /home/u/.local/share/enroot/train"), StageInside, NoContainer, ""},
		"nsenter's":         {says("nsenter: cannot open /proc/99999/ns/mnt: No such file or directory"), StageInside, NoContainer, ""},
		"docker stopped":    {says("Error response from daemon: container 0d85ab is not running"), StageInside, ContainerStopped, ""},
		"docker paused":     {says("Error response from daemon: Container train is paused, unpause the container before exec"), StageInside, ContainerStopped, ""},
		"podman stopped":    {says("Error: can only create exec sessions on running containers: container state improper"), StageInside, ContainerStopped, ""},
		"nerdctl stopped":   {says(`time="…" level=fatal msg="no running task found: task 2a0b not found: not found"`), StageInside, ContainerStopped, ""},
		"runc, no sh":       {says(`OCI runtime exec failed: exec failed: unable to start container process: exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown`), StageInside, NoShellInside, ""},
		"crun, no sh":       {says("Error: crun: executable file `/bin/sh` not found in $PATH: No such file or directory: OCI runtime attempted to invoke a command that was not found"), StageInside, NoShellInside, ""},
		"nsenter, no sh":    {says("nsenter: failed to execute /bin/sh: No such file or directory"), StageInside, NoShellInside, ""},
		"apptainer arch":    {says("FATAL:   could not open image /x.sif: the image's architecture (arm64) could not run on the host's (amd64)"), StageInside, OtherArch, ""},
		"runc arch":         {says("exec /bin/sh: exec format error"), StageInside, OtherArch, ""},
		"docker -t":         {says("the input device is not a TTY"), StageInside, GivenTerminal, ""},
		"podman -t":         {`c=$1; d=$2; shift 2; E="$*" exec script -qec "$c $d \"\$E\"" /dev/null`, StageInside, GivenTerminal, "a terminal"},
		"no -i":             {`exec "$@" </dev/null`, StageInside, NoInput, "does not pass its input"},
		"says something":    {says("usage: mine"), StageInside, NotEntered, "ended with status 1 before it started a shell in the container: usage: mine"},
		"ends":              {"exit 0", StageInside, NotEntered, "ended with status 0"},
		"no programs":       {`HOME=/proc XDG_CACHE_HOME=/proc/none PATH=/nowhere exec "$@"`, StageDeliver, NoPrograms, ""},
	} {
		t.Run(name, func(t *testing.T) {
			remotetest.NoLeaks(t)
			t.Parallel()
			n := &remotetest.Node{Home: t.TempDir()}
			program := "no-such-engine"
			if c.engine != "" {
				program = engine(t, n, c.engine)
			}
			_, trace, failure := inside(t, n, 20*time.Second, program, "exec", "train")
			if failure == nil {
				t.Fatal("an agent")
			}
			if failure.Stage != c.stage || failure.Cause != c.cause || !strings.Contains(failure.Err.Error(), c.text) {
				t.Errorf("got %v, want %s: %s: …%s…", failure, c.stage, c.cause, c.text)
			}
			if c.stage == StageInside && c.cause != GivenTerminal && failure.Detail["program"] != program {
				t.Errorf("detail %q", failure.Detail)
			}
			if trace.Inside == nil {
				t.Error("the trace does not say where it went")
			}
		})
	}
}

// TestEngineHangs: a hanging engine is not reported as a hanging login.
func TestEngineHangs(t *testing.T) {
	n := &remotetest.Node{Home: t.TempDir()}
	_, _, failure := inside(t, n, 2*time.Second, engine(t, n, "exec sleep 1000"))
	if failure == nil || failure.Stage != StageInside || failure.Cause != Frozen || !strings.Contains(failure.Err.Error(), "started no shell within") {
		t.Errorf("got %v", failure)
	}
}

// TestEntersUnasked: preflight does not believe a node that claims to enter a container without
// being asked to.
func TestEntersUnasked(t *testing.T) {
	n := &remotetest.Node{Home: t.TempDir(), Shell: []string{"/bin/sh", "-c", `echo "@@pre""flight enters"; exit 3`}}
	if _, _, failure := start(t, n, 20*time.Second); failure == nil || failure.Stage != StageShell {
		t.Errorf("got %v", failure)
	}
}

// TestCleanInside: Clean works inside the container, and needs no input.
func TestCleanInside(t *testing.T) {
	n := &remotetest.Node{Home: t.TempDir()}
	program := engine(t, n, `exec "$@"`)
	agent, trace, failure := inside(t, n, 20*time.Second, program)
	if failure != nil {
		t.Fatal(failure)
	}
	agent.Close()
	s := &cleaning{ending: ending{host: "w1", entrance: entrance{words: []string{program}}}}
	if err := s.run(connect(t, n)); err != nil || !slices.Contains(s.removed, trace.Path) {
		t.Errorf("removed %q: %v", s.removed, err)
	}
	s = &cleaning{ending: ending{host: "w1", entrance: entrance{words: []string{"no-such-engine"}}}}
	if err := s.run(connect(t, n)); err == nil || err.Cause != NoEngine {
		t.Errorf("got %v", err)
	}
}

func TestEnterable(t *testing.T) {
	for _, words := range [][]string{nil, {"docker", ""}, {"docker", "a\nb"}, {"docker", "\x00"}, {"docker", "\xff"}, {"a\x1b[2J"}} {
		if Enterable(words) == nil {
			t.Errorf("%q is taken", words)
		}
	}
	if err := Enterable([]string{"docker", "exec", "-i", "é 容器"}); err != nil {
		t.Error(err)
	}
}
