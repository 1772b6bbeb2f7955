// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// standardPath is the PATH that sshd gives a root session on Debian.
const standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func obey(s *session, command string) {
	if s.Exec != nil {
		s.exit(s.Exec(command, s.channel, s.stdout, s.channel.Stderr()))
		return
	}
	state, err := s.runShell(command)
	if err != nil {
		s.fleet.t.Errorf("testhosts: %s: %v", s.Name, err)
		s.exit(255)
		return
	}
	if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		s.exitBySignal(strings.TrimPrefix(unix.SignalName(status.Signal()), "SIG"))
	} else {
		s.exit(status.ExitStatus())
	}
}

// runShell runs the command in the login shell. It returns when the command has exited and closed
// its output, or when the connection has ended. When the connection ends, runShell kills the
// process group. A real sshd would let the processes run, but a test must not.
func (s *session) runShell(command string) (*os.ProcessState, error) {
	environment, err := s.environment()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(s.Shell, "-c", command)
	cmd.Env = environment
	cmd.Dir = s.home()
	if _, err := os.Stat(cmd.Dir); err != nil {
		cmd.Dir = "/" // sshd also uses / if the home directory is missing
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	var copies sync.WaitGroup
	stdout, err := s.copyTo(s.stdout, &copies)
	if err != nil {
		return nil, err
	}
	stderr, err := s.copyTo(s.channel.Stderr(), &copies)
	if err != nil {
		stdout.Close()
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err = cmd.Start()
	stdout.Close()
	stderr.Close()
	if err != nil {
		copies.Wait()
		return nil, err
	}
	stop := context.AfterFunc(s.ctx, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer stop()
	go func() {
		defer stdin.Close()
		io.Copy(stdin, s.channel) // ends when the channel ends
	}()
	copies.Wait()
	cmd.Wait() // the state contains the result
	return cmd.ProcessState, nil
}

// copyTo returns the write end of a pipe, and copies from the read end to w until the connection
// ends. It does not use the pipes of exec.Cmd, because Wait would then wait for every process that
// still holds a pipe.
func (s *session) copyTo(w io.Writer, copies *sync.WaitGroup) (*os.File, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	copies.Go(func() {
		defer from.Close()
		// Killing the process group does not end processes that have left the group and hold the
		// pipe.
		stop := context.AfterFunc(s.ctx, func() { from.Close() })
		defer stop()
		io.Copy(w, from)
	})
	return to, nil
}

func (h *host) home() string {
	return cmp.Or(h.Home, filepath.Join(h.fleet.scratch, h.address, "home"))
}

// makeEnvironment creates the home directory with its files, and returns the minimal environment
// that sshd would give a session.
func (h *host) makeEnvironment() ([]string, error) {
	if h.Home == "" {
		if err := os.MkdirAll(h.home(), 0o700); err != nil {
			return nil, err
		}
	}
	for name, text := range h.Files {
		if err := writeFile(filepath.Join(h.home(), name), text); err != nil {
			return nil, err
		}
	}
	path, err := h.makePath()
	if err != nil {
		return nil, err
	}
	return append([]string{
		"HOME=" + h.home(), "PATH=" + path, "SHELL=" + h.Shell, "USER=root", "LOGNAME=root",
		// bash reads ~/.bashrc if these two variables are set.
		"SSH_CLIENT=127.0.0.1 40000 22", "SSH_CONNECTION=127.0.0.1 40000 " + h.address + " 22",
	}, h.Env...), nil
}

// makePath returns a PATH in which the host's shims come first. The commands that the host lacks
// are not in this PATH.
func (h *host) makePath() (string, error) {
	own := filepath.Join(h.fleet.scratch, "bin") + ":"
	path := own + standardPath
	if len(h.lacks) > 0 {
		without := filepath.Join(h.fleet.scratch, h.address, "bin")
		if err := linkCommands(without, h.lacks); err != nil {
			return "", err
		}
		path = own + without
	}
	if len(h.shims) == 0 {
		return path, nil
	}
	shims := filepath.Join(h.fleet.scratch, h.address, "shims")
	for name, script := range h.shims {
		if err := writeFile(filepath.Join(shims, name), script); err != nil {
			return "", err
		}
	}
	return shims + ":" + path, nil
}

// linkCommands fills dir with links to all commands of the machine except those in but.
func linkCommands(dir string, but []string) error {
	skip := map[string]bool{}
	for _, name := range but {
		skip[name] = true
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, from := range filepath.SplitList(standardPath) {
		commands, err := os.ReadDir(from)
		if err != nil {
			continue // not every machine has every directory
		}
		for _, command := range commands {
			name := command.Name()
			if skip[name] {
				continue
			}
			skip[name] = true // the first directory takes precedence
			if err := os.Symlink(filepath.Join(from, name), filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeFile(name, text string) error {
	mode := fs.FileMode(0o600)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		return fmt.Errorf("prepare host: %w", err)
	}
	return nil
}
