// SPDX-License-Identifier: Apache-2.0

package remotetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Reply repeats the type Reply of package remote. This package cannot import it, because remote's
// own tests import this package.
type Reply = func(part string, body json.RawMessage, last bool) error

// Methods maps the names of the test agent's methods to their functions.
var Methods = map[string]func(ctx context.Context, params json.RawMessage, reply Reply) error{
	"echo": func(_ context.Context, params json.RawMessage, reply Reply) error {
		for i := range 3 {
			if err := reply(strconv.Itoa(i), params, false); err != nil {
				return err
			}
		}
		return nil
	},
	"environment": func(_ context.Context, _ json.RawMessage, reply Reply) error {
		return reply("environment", encoded(os.Environ()), false)
	},
	"list": func(_ context.Context, params json.RawMessage, reply Reply) error {
		entries, _ := os.ReadDir(text(params)) // a missing directory has no entries
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return reply("names", encoded(names), false)
	},
	"fail": func(context.Context, json.RawMessage, Reply) error {
		return errors.New("no luck\x1b[31m")
	},
	"panic": func(context.Context, json.RawMessage, Reply) error { panic("oh") },
	"exit": func(context.Context, json.RawMessage, Reply) error {
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(3)
		return nil
	},
	"killed": signalled(syscall.SIGKILL),
	"stop":   signalled(syscall.SIGSTOP),
	"print": func(_ context.Context, params json.RawMessage, _ Reply) error {
		os.Stdout.WriteString(text(params))
		return nil
	},
	"printed": func(ctx context.Context, params json.RawMessage, _ Reply) error {
		os.Stdout.WriteString(text(params))
		os.Exit(0)
		return nil
	},
	"big": func(_ context.Context, params json.RawMessage, reply Reply) error {
		var size, times int
		if _, err := fmt.Sscan(strings.Trim(string(params), `"`), &size, &times); err != nil {
			return err
		}
		for range times {
			if err := reply("big", encoded(strings.Repeat("x", size)), false); err != nil {
				return err
			}
		}
		return nil
	},
	"stderr": func(ctx context.Context, _ json.RawMessage, _ Reply) error {
		line := strings.Repeat("e", 1<<20)
		for ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, line)
		}
		return ctx.Err()
	},
	// child starts a process that ends with the method, and returns the PID of the process.
	"child": func(ctx context.Context, _ json.RawMessage, reply Reply) error {
		child := exec.CommandContext(ctx, "sleep", "1000")
		if err := child.Start(); err != nil {
			return err
		}
		if err := reply("pid", encoded(child.Process.Pid), false); err != nil {
			return err
		}
		return child.Wait()
	},
}

func encoded(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // a mistake in the test
	}
	return text
}

func text(params json.RawMessage) (text string) {
	if err := json.Unmarshal(params, &text); err != nil {
		panic(err) // a mistake in the test
	}
	return text
}

// signalled returns a method that sends a signal to the agent's own process.
func signalled(signal syscall.Signal) func(context.Context, json.RawMessage, Reply) error {
	return func(ctx context.Context, _ json.RawMessage, _ Reply) error {
		if err := syscall.Kill(os.Getpid(), signal); err != nil {
			return err
		}
		<-ctx.Done() // a signal takes a moment to reach every thread
		return ctx.Err()
	}
}

// NoLeaks fails a test that leaves goroutines of preflight or x/crypto running.
func NoLeaks(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		var left string
		for range 100 {
			buffer := make([]byte, 1<<20)
			left = ""
			for stack := range strings.SplitSeq(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
				ours := strings.Contains(stack, "preflight/remote") || strings.Contains(stack, "x/crypto/ssh.")
				if ours && !strings.Contains(stack, "testing.") {
					left += stack + "\n\n"
				}
			}
			if left == "" {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("goroutines left behind:\n%s", left)
	})
}

// Slack is how long after its deadline a call may return.
const Slack = time.Second

// Lasted reports whether a detail says that a wait of length limit timed out. The detail has a
// precision of a tenth of a second. It must not name a longer time than the call took.
func Lasted(detail string, limit, returned time.Duration) bool {
	seconds, err := strconv.ParseFloat(strings.TrimSuffix(detail, " s"), 64)
	told := time.Duration(seconds * float64(time.Second))
	return err == nil && strings.HasSuffix(detail, " s") && told >= limit-100*time.Millisecond && told <= returned+100*time.Millisecond
}

// Gone waits until a process has ended.
func Gone(t *testing.T, pid int) {
	t.Helper()
	for range 250 {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); os.IsNotExist(err) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("process %d still runs", pid)
}

// Nothing ignores the parts of an answer.
func Nothing(string, json.RawMessage) {}
