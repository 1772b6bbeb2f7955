// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"io"

	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"preflight/testhosts/remotetest"
)

// warm returns a node that already has the agent, and the agent's path.
func warm(t *testing.T) (n *remotetest.Node, path string) {
	t.Helper()
	n = &remotetest.Node{Home: t.TempDir(), Env: []string{"XDG_RUNTIME_DIR=" + t.TempDir()}}
	agent, trace, err := start(t, n, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	agent.Close()
	return n, trace.Path
}

// TestWhatIsNotOursIsDeliveredAgain: a file with the agent's name is not run if it is not the
// agent, or if another user could replace it. The agent is delivered again, once, and the trace
// says why.
func TestWhatIsNotOursIsDeliveredAgain(t *testing.T) {
	remotetest.NoLeaks(t)
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	rewrite := func(path string, change func([]byte) []byte) {
		content, err := os.ReadFile(path)
		must(err)
		must(os.Remove(path)) // the file may be running, so it cannot be overwritten
		must(os.WriteFile(path, change(content), 0o700))
	}
	for name, c := range map[string]struct {
		spoil func(path string)
		why   string
		moves bool // the agent is then stored in another directory
	}{
		"truncated": {func(path string) {
			rewrite(path, func(b []byte) []byte { return b[:len(b)/2] })
		}, "altered: it has ", false},
		"empty": {func(path string) {
			rewrite(path, func([]byte) []byte { return nil })
		}, "altered: it has 0 bytes, not ", false},
		"longer": {func(path string) {
			rewrite(path, func(b []byte) []byte { return append(b, 0) })
		}, "altered: it has ", false},
		"a link": {func(path string) {
			must(os.Rename(path, path+"-elsewhere"))
			must(os.Symlink(path+"-elsewhere", path))
		}, "a symbolic link", false},
		"another name": {func(path string) { must(os.Link(path, filepath.Join(t.TempDir(), "mine"))) }, "not a private file: -rwx------, 2 names", false},
		"anybody's":    {func(path string) { must(os.Chmod(path, 0o777)) }, "not a private file: -rwxrwxrwx, 1 names", false},
		"our group's":  {func(path string) { must(os.Chmod(path, 0o770)) }, "not a private file: -rwxrwx---, 1 names", false},
		"not to run":   {func(path string) { must(os.Chmod(path, 0o600)) }, "not a private file: -rw-------, 1 names", false},
		"another user's": {func(path string) {
			if os.Getuid() != 0 {
				t.Skip("only root may give a file away")
			}
			must(os.Chown(path, 65534, -1))
		}, "not our own file", false},
		"open directory": {func(path string) {
			must(os.Chmod(filepath.Dir(path), 0o777))
		}, "in a directory that is not private: drwxrwxrwx", true},
	} {
		t.Run(name, func(t *testing.T) {
			n, path := warm(t)
			c.spoil(path)
			agent, trace, err := start(t, n, 20*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			agent.Close()
			if !trace.Delivered || !strings.HasPrefix(trace.Distrusted, path+": "+c.why) || len(trace.Noise) > 0 {
				t.Errorf("delivered %v, distrusted %q, noise %q; want …%s…", trace.Delivered, trace.Distrusted, trace.Noise, c.why)
			}
			if moved := trace.Path != path; moved != c.moves {
				t.Errorf("delivered to %s", trace.Path)
			}
			again, trace, err := start(t, n, 20*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			again.Close()
			if trace.Delivered || trace.Distrusted != "" {
				t.Errorf("delivered once more: %v, distrusted %q", trace.Delivered, trace.Distrusted)
			}
		})
	}
}

// TestSwapBetweenCheckingAndStarting: a user who may write in the directory can swap the file at
// any moment. The file that was checked must be the one that runs, whenever the swap happens.
func TestSwapBetweenCheckingAndStarting(t *testing.T) {
	remotetest.NoLeaks(t)
	// The programs are scripts because a start must cost little. Both keep the descriptor open.
	hello := `echo "@@preflight {\"hello\":{\"os\":\"linux\",\"arch\":\"` + runtime.GOARCH + `\"}}"; cat >/dev/null`
	good := stub(t, `case $2 in install) mv "$(readlink $0)" "$3/preflight-$4" ;; *) `+hello+` ;; esac`)
	evil := "#!/bin/sh\ntouch \"$HOME/swapped\"; " + hello + "\n"
	client := testClient(t)
	client.options.Binary = only(good)
	client.offer = func() string { return offer(client.options.Binary) }
	packed, err := good.Gzip()
	if err != nil {
		t.Fatal(err)
	}
	unpack := exec.Command("gzip", "-dc")
	unpack.Stdin = bytes.NewReader(packed)
	text, err := unpack.Output()
	if err != nil {
		t.Fatal(err)
	}
	n := &remotetest.Node{Home: t.TempDir()}
	path := plant(t, n.Home, good.Hash, "exit 9")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			for _, content := range []string{string(text), evil} {
				select {
				case <-stop:
					return
				default:
				}
				_ = os.WriteFile(path+"-next", []byte(content), 0o700)
				_ = os.Rename(path+"-next", path)
				time.Sleep(time.Millisecond) // without the pause, no other process gets the CPU
			}
		}
	}()
	cold := 0
	const starts = 200
	for range starts {
		trace := &Trace{}
		agent, err := client.bootstrap(t.Context(), connect(t, n), "w1", trace)
		if err != nil {
			t.Error(err)
			break
		}
		agent.Close()
		if trace.Delivered {
			cold++
		}
	}
	close(stop)
	<-stopped
	if _, err := os.Stat(filepath.Join(n.Home, "swapped")); err == nil {
		t.Error("what was not checked was run")
	}
	if cold == 0 || cold == starts {
		t.Errorf("%d of %d starts met the wrong file: the race was never run", cold, starts)
	}
}

// TestAgentArrives: an agent leaves no descriptor of its start to its children, and has its own
// name.
func TestAgentArrives(t *testing.T) {
	remotetest.NoLeaks(t)
	n, path := warm(t)
	agent, _, failure := start(t, n, 20*time.Second)
	if failure != nil {
		t.Fatal(failure)
	}
	pid, _ := child(t, t.Context(), agent)
	for _, process := range []int{agent.Hello.PID, pid} {
		for fd := range 20 {
			target, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(process), "fd", strconv.Itoa(fd)))
			if err == nil && target == path && process == pid {
				t.Errorf("the child has descriptor %d of our binary", fd)
			}
		}
	}
	comm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(agent.Hello.PID), "comm"))
	if err != nil || string(comm) != "preflight\n" {
		t.Errorf("it is called %q, %v", comm, err)
	}
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(agent.Hello.PID), "cmdline"))
	if err != nil || !strings.Contains(string(line), path) {
		t.Errorf("its command line is %q, %v", line, err)
	}
	if agent.Hello.Path != path {
		t.Errorf("it lies at %s, want %s", agent.Hello.Path, path)
	}
}

// TestShellsOfNodes tries every available /bin/sh: without the agent, with the agent, and with a
// binary that was altered.
func TestShellsOfNodes(t *testing.T) {
	for _, shell := range []string{"dash", "bash", "bash --posix", "busybox sh", "zsh --emulate sh", "ksh", "ksh93", "mksh", "yash"} {
		program, _, _ := strings.Cut(shell, " ")
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("NOT CHECKED: %s is not here", shell)
			continue
		}
		t.Run(shell, func(t *testing.T) {
			remotetest.NoLeaks(t)
			n := &remotetest.Node{
				Home: filepath.Join(t.TempDir(), "a home"), Env: []string{"PATH=" + os.Getenv("PATH")},
				Shell: []string{"/bin/sh", "-c", `c=${0#exec /bin/sh -c ?}; exec ` + shell + ` -c "${c%?}"`},
			}
			if err := os.Mkdir(n.Home, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct{ delivered, spoil bool }{{true, false}, {false, true}, {true, false}, {false, false}} {
				agent, trace, err := start(t, n, 20*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				if trace.Delivered != c.delivered || len(trace.Noise) > 0 {
					t.Errorf("delivered %v, want %v; distrusted %q, noise %q", trace.Delivered, c.delivered, trace.Distrusted, trace.Noise)
				}
				if err := agent.Close(); err != nil {
					t.Error(err)
				}
				if c.spoil {
					if err := os.Truncate(trace.Path, 1000); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// TestDeliveryThatStops: if the launching machine is cut off while it delivers, no process keeps
// running on the node and no part of a file stays there. If the launching machine is still
// connected, it gets the reason.
func TestDeliveryThatStops(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]string{
		"before the bytes": "",
		"among them":       strings.Repeat("0", 64) + " 1000000\n" + strings.Repeat("x", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			cmd := exec.Command("/bin/sh", "-c", deliverCommand)
			cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			io.WriteString(stdin, "00ff any:"+strings.Repeat("0", 64)+":1000\n")
			for lines := newLineReader(stdout); ; {
				line, err := lines.next()
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(string(line), "need ") {
					break
				}
			}
			io.WriteString(stdin, sent)
			output, err := io.ReadAll(stdout) // reads until every process that holds stdout has ended
			if err != nil || string(output) != Marker+"stalled\n" {
				t.Errorf("said %q, %v", output, err)
			}
			if err := cmd.Wait(); err == nil || err.Error() != "exit status 1" {
				t.Errorf("ended by %v", err)
			}
			if left, err := filepath.Glob(home + "/.cache/preflight/*"); err != nil || len(left) > 0 {
				t.Errorf("left %q, %v", left, err)
			}
		})
	}
}
