// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"preflight/testhosts/remotetest"
)

func TestNoiseBeforeHelloIsToldAndHarmless(t *testing.T) {
	remotetest.NoLeaks(t)
	n := &remotetest.Node{Shell: []string{"/bin/sh", "-c", `printf 'Welcome\nto \033[31mw1\nno newline:'; exec /bin/sh -c "$0"`}}
	agent, trace, err := start(t, n, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var lost *Error
	if err := agent.Call(ctx, "stop", nil, remotetest.Nothing); !errors.As(err, &lost) || lost.Cause != Frozen {
		t.Errorf("a late call after a noisy login: %v, want frozen", err)
	}
	_ = syscall.Kill(agent.Hello.PID, syscall.SIGKILL)
	want := []string{"Welcome", `to \x1b[31mw1`, "no newline:"}
	if diff := cmp.Diff(want, trace.Noise); diff != "" {
		t.Errorf("noise (-want +got):\n%s", diff)
	}
}

// TestDeliveryThatIsCleanedAway: if preflight clean runs at the same time as a delivery, the agent
// still runs.
func TestDeliveryThatIsCleanedAway(t *testing.T) {
	remotetest.NoLeaks(t)
	tools := t.TempDir()
	// This gzip unpacks the agent. The first time, it also removes the agent as soon as it is
	// executable.
	remotetest.Script(t, filepath.Join(tools, "gzip"), `/bin/gzip "$@" || exit
mkdir `+tools+`/once 2>/dev/null || exit 0
(while ! [ -x "$HOME"/.cache/preflight/preflight-*.* ]; do :; done; rm -f "$HOME"/.cache/preflight/*) >/dev/null 2>&1 &`)
	for name, env := range map[string][]string{
		"before it is installed": {"CLEANED=1"},
		"before it is opened":    {"PATH=" + tools + ":" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + t.TempDir()},
	} {
		home := t.TempDir()
		agent, _, err := start(t, &remotetest.Node{Home: home, Env: env}, time.Minute)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		agent.Close()
		if left, _ := filepath.Glob(filepath.Join(home, ".cache/preflight/*")); len(left) > 0 {
			t.Errorf("%s: left in the home: %q", name, left)
		}
	}
}

// TestConcurrentDeliveryToOneHome: nodes that share a home directory all start at the same time.
// The binary is sent to one of them, and no node may see half a file.
func TestConcurrentDeliveryToOneHome(t *testing.T) {
	remotetest.NoLeaks(t)
	const nodes = 12
	home := t.TempDir()
	client := testClient(t)
	client.homes.stillness, client.homes.longestWait = time.Hour, time.Hour // a busy machine may stand still
	failures := make([]*Error, nodes)
	var delivered atomic.Int32
	var all sync.WaitGroup
	for i := range nodes {
		connection := connect(t, &remotetest.Node{Home: home})
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			trace := &Trace{}
			agent, err := client.bootstrap(ctx, connection, fmt.Sprint("w", i), trace)
			if failures[i] = err; err == nil {
				agent.Close()
			}
			if trace.Delivered {
				delivered.Add(1)
			}
		})
	}
	all.Wait()
	for _, err := range failures {
		if err != nil {
			t.Error(err)
		}
	}
	if delivered.Load() != 1 {
		t.Errorf("%d nodes were sent the binary, and share a home", delivered.Load())
	}
	if len(client.homes.of) != 0 {
		t.Errorf("kept: %v", client.homes.of)
	}
	entries, err := os.ReadDir(filepath.Join(home, ".cache/preflight"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Mode() != 0o700 || !buildName.MatchString(info.Name()) {
			t.Errorf("left in the home: %v %v", info, err)
		}
	}
	if len(entries) != 1 {
		t.Errorf("%d files in the home, want 1", len(entries))
	}
}

// tools returns a PATH with the tools that deliver.sh uses. The tools in without are missing, and
// those in replaced are scripts.
func tools(t *testing.T, without string, replaced map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, tool := range []string{"head", "gzip", "cat", "uname", "id", "ls", "mkdir", "chmod", "rm", "sh", "rmdir"} {
		if text, ok := replaced[tool]; ok {
			remotetest.Script(t, filepath.Join(dir, tool), text)
		} else if tool != without {
			if err := os.Symlink("/usr/bin/"+tool, filepath.Join(dir, tool)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return "PATH=" + dir
}

func TestDeliveryWithoutGzip(t *testing.T) {
	remotetest.NoLeaks(t)
	_, trace, err := start(t, (&remotetest.Node{Env: []string{tools(t, "gzip", nil)}}), 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if !trace.Delivered {
		t.Error("not delivered")
	}
}

// TestNodePicksTheBinaryForItsMachine: a home directory that machines of two architectures share
// has a binary for each architecture. Every node uses its own.
func TestNodePicksTheBinaryForItsMachine(t *testing.T) {
	remotetest.NoLeaks(t)
	other := map[string]string{"amd64": "aarch64", "arm64": "x86_64"}[runtime.GOARCH]
	client := testClient(t)
	own := client.options.Binary
	foreign := stub(t, "exit 9").Hash
	client.options.Binary = func(_, arch string) (*Binary, error) {
		b, err := own("linux", runtime.GOARCH)
		if err == nil && arch == runtime.GOARCH {
			return &Binary{Hash: foreign, BuildID: b.BuildID, Gzip: b.Gzip, Size: b.Size}, nil
		}
		if err == nil && arch != goarch(other) {
			return nil, os.ErrNotExist
		}
		return b, err
	}
	client.offer = func() string { return offer(client.options.Binary) }
	n := &remotetest.Node{Home: t.TempDir(), Env: []string{tools(t, "", map[string]string{"uname": "case $1 in -m) echo " + other + ";; *) echo Linux;; esac"})}}
	plant(t, n.Home, foreign, "exit 9")
	for _, cold := range []bool{true, false} {
		trace := &Trace{}
		agent, err := client.bootstrap(t.Context(), connect(t, n), "w1", trace)
		if err != nil {
			t.Fatal(err)
		}
		agent.Close()
		b, _ := own("linux", runtime.GOARCH)
		if trace.Delivered != cold || !strings.HasSuffix(trace.Path, b.Hash) {
			t.Errorf("delivered %v, want %v; path %s", trace.Delivered, cold, trace.Path)
		}
	}
}

// stub returns a script that is used instead of the agent binary.
func stub(t *testing.T, text string) *Binary {
	t.Helper()
	return packed(t, []byte("#!/bin/sh\n"+text+"\n"))
}

// packed returns a program in the form in which it is sent to nodes.
func packed(t *testing.T, program []byte) *Binary {
	t.Helper()
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(program); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(program)
	return &Binary{
		Hash: hex.EncodeToString(sum[:]), Size: int64(len(program)),
		Gzip: func() ([]byte, error) { return packed.Bytes(), nil },
	}
}

// plant puts a script where deliver.sh looks for the binary of a hash. The script has the same
// private mode.
func plant(t *testing.T, home, hash, text string) (path string) {
	t.Helper()
	path = filepath.Join(home, ".cache/preflight/preflight-"+hash)
	remotetest.Script(t, path, text)
	for _, private := range []string{path, filepath.Dir(path)} {
		if err := os.Chmod(private, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// refuses is the script that NixOS installs where other systems have a loader.
const refuses = "echo cannot run generic programs >&2; exit 127"

// withoutLoader returns a program whose loader is missing, as glibc's is on Alpine.
func withoutLoader(t *testing.T) *Binary {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	program(t, path, "/lib/ld-absent.so.1")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return packed(t, text)
}

// only returns a function that returns a binary for machines like this one, and none for others.
func only(b *Binary) func(goos, arch string) (*Binary, error) {
	return func(_, arch string) (*Binary, error) {
		if arch != runtime.GOARCH {
			return nil, os.ErrNotExist
		}
		return b, nil
	}
}

// failing is a login that must fail with a known cause.
type failing struct {
	node   remotetest.Node
	cached string // a script with the name of the agent in the home's cache
	limit  time.Duration
	binary func(goos, arch string) (*Binary, error)

	stage  Stage
	cause  Cause
	detail map[string]string // parts of the values that the error's Detail must have
	text   string            // a part of the message
}

func (f *failing) try(t *testing.T) {
	client := testClient(t)
	if f.cached != "" {
		f.binary = only(stub(t, f.cached))
	}
	if f.binary != nil {
		client.options.Binary = f.binary
		client.offer = func() string { return offer(f.binary) }
	}
	if f.node.Home == "" {
		f.node.Home = t.TempDir()
	}
	if f.cached != "" {
		plant(t, f.node.Home, stub(t, f.cached).Hash, f.cached)
	}
	if f.limit == 0 {
		f.limit = 20 * time.Second
	}
	conn := connect(t, &f.node) // runs a key exchange first, which must not count towards the limit
	ctx, cancel := context.WithTimeout(t.Context(), f.limit)
	defer cancel()
	began := time.Now()
	agent, err := client.bootstrap(ctx, conn, "w1", &Trace{})
	if err == nil {
		agent.Close()
		t.Fatal("it worked")
	}
	took := time.Since(began)
	if took > f.limit+remotetest.Slack {
		t.Errorf("took %s of %s", took, f.limit)
	}
	if err.Stage != f.stage || err.Cause != f.cause || err.Host != "w1" || !strings.Contains(err.Error(), f.text) {
		t.Errorf("got %v\nwant %s: %s: …%s…", err, f.stage, f.cause, f.text)
	}
	if f.node.Deaf && !remotetest.Lasted(err.Detail["after"], f.limit, took) {
		t.Errorf("detail after is %q, the limit was %s", err.Detail["after"], f.limit)
	}
	for key, part := range f.detail {
		if got, ok := err.Detail[key]; !ok || !strings.Contains(got, part) {
			t.Errorf("detail %s is %q, want …%s…", key, got, part)
		}
	}
}

// loginShell returns a node whose login shell runs a script. In the script, $0 is the command.
func loginShell(text string) remotetest.Node {
	return remotetest.Node{Shell: []string{"/bin/sh", "-c", text}}
}

func TestLoginsThatFail(t *testing.T) {
	remotetest.NoLeaks(t)
	brief := 2 * time.Second
	for name, f := range map[string]*failing{
		"nologin":         {node: loginShell(`echo This account is currently not available.; exit 1`), stage: StageShell, cause: NoShell, detail: map[string]string{"output": "currently not available"}},
		"false":           {node: remotetest.Node{Shell: []string{"/bin/false"}}, stage: StageShell, cause: NoShell, text: "/bin/false", detail: map[string]string{"status": "1"}},
		"missing shell":   {node: remotetest.Node{Shell: []string{"/opt/zsh"}}, stage: StageShell, cause: NoShell, detail: map[string]string{"output": "/opt/zsh: No such file"}},
		"forced command":  {node: loginShell(`echo "only backups here"; exit 1`), stage: StageShell, cause: ForcedCommand, detail: map[string]string{"output": "only backups"}},
		"repeats command": {node: loginShell(`echo "not allowed: $0"; exit 1`), stage: StageShell, cause: ForcedCommand, text: "not allowed: exec /bin/sh"},
		"repeats input":   {node: loginShell(`exec cat`), limit: brief, stage: StageShell, cause: ForcedCommand, text: "repeats"},
		"pty":             {node: loginShell(`echo "PTY allocation request failed" >&2; exit 1`), stage: StageShell, cause: NeedsPTY},
		"sudo":            {node: loginShell(`echo "sudo: sorry, you must have a tty to run sudo" >&2; exit 1`), stage: StageShell, cause: NeedsPTY},
		"exit":            {node: loginShell(`exit 0`), stage: StageShell, cause: ShellBroken, text: "calls exit"},
		"startup error":   {node: loginShell(`echo "/home/u/.bashrc: line 3: syntax error" >&2; exit 2`), stage: StageShell, cause: ShellBroken, detail: map[string]string{"output": ".bashrc: line 3"}},
		"swallows all":    {node: loginShell(`cat >/dev/null; exec /bin/sh -c "$0"`), limit: brief, stage: StageShell, cause: ShellHangs, text: "startup file"},
		"swallows a line": {node: loginShell(`read x; exec /bin/sh -c "$0"`), limit: brief, stage: StageShell, cause: ShellBroken},
		"frozen":          {node: remotetest.Node{Deaf: true, Shell: []string{"/bin/sh", "-c", "sleep 100"}}, limit: brief, stage: StageShell, cause: Frozen},
		"floods":          {node: loginShell(`exec yes`), stage: StageShell, cause: TooMuch, detail: map[string]string{"limit": "64 KiB"}},
		"floods a line":   {node: loginShell(`exec tr '\0' x </dev/zero`), stage: StageShell, cause: TooMuch},
		"floods stderr":   {node: loginShell(`exec yes >&2`), stage: StageShell, cause: TooMuch, detail: map[string]string{"limit": "messages"}},
		"killed shell":    {node: loginShell(`kill -9 $$`), stage: StageShell, cause: ShellBroken, text: "SIGKILL"},
		"no exec":         {node: remotetest.Node{Refuse: true}, stage: StageSession, cause: SessionRefused, text: "runs no commands"},
		"no status":       {node: remotetest.Node{Exec: func(string, ssh.Channel) int { return -1 }}, stage: StageShell, cause: ShellBroken, text: "without an exit status"},
		"swallows name":   {node: remotetest.Node{Exec: func(_ string, c ssh.Channel) int { c.Write([]byte("@@preflight shell\n")); return -1 }}, stage: StageShell, cause: ShellBroken, text: "consumes the input"},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); f.try(t) })
	}
}

func TestBinariesThatDoNotStart(t *testing.T) {
	remotetest.NoLeaks(t)
	machine := func(system, arch string) remotetest.Node {
		return remotetest.Node{Env: []string{tools(t, "", map[string]string{"uname": "case $1 in -m) echo " + arch + ";; *) echo " + system + ";; esac"})}}
	}
	wrong := func(goos, arch string) (*Binary, error) {
		b, err := Own(goos, arch)
		if err != nil {
			return nil, err
		}
		return &Binary{Hash: strings.Repeat("ab", 32), BuildID: b.BuildID, Size: b.Size, Gzip: b.Gzip}, nil
	}
	says := func(text string) string { return "printf '" + text + "'" }
	for name, f := range map[string]*failing{
		"machine":     {node: machine("Linux", "riscv64"), stage: StageDeliver, cause: WrongArch, detail: map[string]string{"arch": "riscv64", "want": runtime.GOARCH}, text: "`make cross ARCHES=riscv64`"},
		"system":      {node: machine("FreeBSD", "amd64"), stage: StageDeliver, cause: WrongOS, detail: map[string]string{"os": "FreeBSD"}},
		"no head":     {node: remotetest.Node{Env: []string{tools(t, "head", nil)}}, stage: StageDeliver, cause: NoUnpacker},
		"other bytes": {binary: wrong, stage: StageStart, cause: AgentExited, detail: map[string]string{"status": "1", "stderr": "what arrived has SHA-256"}},
		"old libc":    {cached: `echo "$0: /lib/libc.so.6: version \"GLIBC_2.34\" not found (required by $0)" >&2; exit 1`, stage: StageStart, cause: LibcTooOld, detail: map[string]string{"message": "GLIBC_2.34"}},
		"no loader":   {binary: only(withoutLoader(t)), stage: StageStart, cause: LibcTooOld, detail: map[string]string{"message": "glibc's loader is missing"}, text: "no glibc"},
		"stub loader": {binary: only(stub(t, refuses)), stage: StageStart, cause: LibcTooOld, detail: map[string]string{"message": "cannot run"}, text: "no glibc"},
		"binds now":   {binary: only(stub(t, "exit ${LD_BIND_NOW:-3}")), node: remotetest.Node{Env: []string{"LD_BIND_NOW=1"}}, stage: StageStart, cause: AgentExited, detail: map[string]string{"status": "3"}},
		"lost loader": {cached: `exit 127`, stage: StageStart, cause: LibcTooOld, text: "loader"},
		"other kind":  {cached: `echo "Exec format error" >&2; exit 126`, stage: StageStart, cause: WrongArch, text: "make cross"},
		"refused":     {cached: `echo "sh: 1: exec: $0: Operation not permitted" >&2; exit 126`, stage: StageStart, cause: NoExec, text: "not permitted"},
		"killed":      {cached: `kill -9 $$`, stage: StageStart, cause: AgentKilled, detail: map[string]string{"signal": "KILL"}},
		"exits":       {cached: `echo oh dear >&2; exit 3`, stage: StageStart, cause: AgentExited, detail: map[string]string{"status": "3", "stderr": "oh dear"}},
		"hangs":       {cached: `exec sleep 100`, limit: 2 * time.Second, stage: StageStart, cause: Frozen, text: "the server answers"},
		"frozen":      {cached: `exec sleep 100`, limit: 2 * time.Second, node: remotetest.Node{Deaf: true}, stage: StageStart, cause: Frozen, text: "not even from the server"},
		"cut":         {cached: says(`@@preflight {"hello":{"bui`), stage: StageStart, cause: Truncated},
		"garbage":     {cached: says(`@@preflight \033]0;gotcha\n`), stage: StageStart, cause: Garbage, detail: map[string]string{"text": `\x1b]0;gotcha`}},
		"insatiable":  {cached: `machine=$(uname -m); me=$(readlink $0); while echo "@@preflight need Linux $machine gzip ${me##*-} - /d"; do :; done`, limit: 4 * time.Second, stage: StageStart, cause: Garbage, text: "need Linux"},
		"no hello":    {cached: says(`@@preflight {"helo":1}\n`), stage: StageStart, cause: Garbage},
		"other build": {cached: says(`@@preflight {"hello":{"build":"x","os":"linux","arch":"` + runtime.GOARCH + `","path":"/p"}}\n`), stage: StageStart, cause: Unexpected, text: "preflight clean"},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); f.try(t) })
	}
}

func TestReachEndsWithItsCaller(t *testing.T) {
	remotetest.NoLeaks(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	n := &remotetest.Node{Shell: []string{"/bin/sh", "-c", "sleep 100"}}
	_, err := testClient(t).bootstrap(ctx, connect(t, n), "w1", &Trace{})
	if err == nil || err.Cause != Interrupted || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want interrupted", err)
	}
}

func TestConnectionLostBeforeHello(t *testing.T) {
	remotetest.NoLeaks(t)
	var client Connection
	n := &remotetest.Node{Exec: func(string, ssh.Channel) int { client.Close(); return -1 }}
	client = connect(t, n)
	_, err := testClient(t).bootstrap(t.Context(), client, "w1", &Trace{})
	if err == nil || err.Cause != ConnectionLost {
		t.Errorf("got %v, want connection-lost", err)
	}
}

// TestPortions: portions that were not requested yet are not sent, and at the end all bytes were
// sent.
func TestPortions(t *testing.T) {
	whole := bytes.Repeat([]byte("0123456789abcdef"), 3*portion/16)[:2*portion+1]
	var sent pipeEnd
	d := &delivery{command: &command{stdin: &sent}}
	if err := d.send(&Binary{Hash: "HASH", Gzip: func() ([]byte, error) { return whole, nil }}, "gzip"); err != nil {
		t.Fatal(err)
	}
	head := fmt.Sprintf("HASH %d %d\n", len(whole), portion)
	for asked := 1; ; asked++ {
		if want := head + string(whole[:min(asked*portion, len(whole))]); sent.String() != want {
			t.Fatalf("asked %d times, %d bytes were sent and not %d", asked, sent.Len(), len(want))
		}
		if d.left == nil {
			break
		}
		d.sendOn()
	}
	if sent.Len() != len(head)+len(whole) {
		t.Errorf("%d of %d bytes were sent", sent.Len()-len(head), len(whole))
	}
}

type pipeEnd struct{ bytes.Buffer }

func (*pipeEnd) Close() error { return nil }
