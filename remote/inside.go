// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"preflight/internal/lazyregexp"
	"preflight/internal/text"
)

// The dialogue with outside.sh comes before that with the command that it becomes. We send the
// words that enter the ranks' container, one per line, then an empty line. The script's lines are:
//
//	shell    it runs
//	enters   it has read the words
//	absent   the program that should enter is not installed

// Enterable returns what is wrong with the words that enter a container, nil if they are fine. Each
// word must fit into one line.
func Enterable(words []string) error {
	if len(words) == 0 {
		return errors.New("it is empty")
	}
	for _, word := range words {
		switch {
		case word == "":
			return errors.New("it has an empty word")
		case strings.ContainsFunc(word, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }):
			return fmt.Errorf("a word must be one line of text: %s", text.Escape(word))
		}
	}
	return nil
}

// entrance holds the words that enter the ranks' container on a node. Its zero value means the node
// itself.
type entrance struct {
	words   []string
	passed  bool // the node's own shell has read the words
	absent  bool // the first word is not a program on the node
	entered bool // our script runs in the container
}

// entrance returns the entrance for a node.
func (c *Client) entrance(name string) entrance {
	if c.options.In == nil {
		return entrance{}
	}
	return entrance{words: c.options.In(name)}
}

// commandFor returns one of two commands, and the input to send before anything else. direct runs
// on the node itself, and behind enters the container.
func (e entrance) commandFor(direct, behind string) (command, input string) {
	if e.words == nil {
		return direct, ""
	}
	return behind, strings.Join(e.words, "\n") + "\n\n"
}

// handleLine handles a line of outside.sh, or the first line from the container.
func (e *entrance) handleLine(verb string) {
	switch verb {
	case "shell":
		e.entered = e.passed || e.words == nil
	case "enters":
		e.passed = e.words != nil
	case "absent":
		e.absent = true
	}
}

// explainEntrance returns why our command could not enter the ranks' container. It finds the cause
// in the messages of the program that should enter.
func (e *ending) explainEntrance() *Error {
	program, messages := text.Escape(e.words[0]), e.output()
	fail := func(c Cause, text string) *Error {
		return e.fail(StageInside, c, map[string]string{"program": program, "output": messages}, errors.New(text+after(messages)))
	}
	if e.entered {
		return fail(NoInput, program+" does not pass its input to the program that it starts")
	}
	if e.absent {
		return fail(NoEngine, "the node has no "+program)
	}
	for _, known := range entranceWords {
		if known.pattern.MatchString(messages) {
			return fail(known.cause, known.text)
		}
	}
	return fail(NotEntered, fmt.Sprintf("%s ended with status %d before it started a shell in the container", program, e.Status))
}

// entranceWords lists messages of container engines that cannot start a shell. The first match is
// the cause. A missing container comes last, because many other failures end with that message too.
//
// Sources: moby/moby 28.2, client/errors.go and daemon/exec.go; docker/cli 28.2, cli/streams/in.go;
// containers/podman 4.3, libpod/container_exec.go and libpod/define/errors.go; containers/crun 1.8,
// src/libcrun/container.c; opencontainers/runc 1.1, libcontainer/init_linux.go; containerd/nerdctl
// 1.7, pkg/clientutil/client.go and pkg/cmd/container/exec.go; containerd 1.7, container.go;
// apptainer 1.2, internal/pkg/runtime/launch and pkg/image/sif.go; NVIDIA/enroot 3.4,
// src/runtime.sh; util-linux 2.38, sys-utils/nsenter.c; sudo 1.9, plugins/sudoers/auth/sudo_auth.c.
var entranceWords = []struct {
	cause   Cause
	text    string
	pattern *lazyregexp.Regexp
}{
	{GivenTerminal, "it is set to give preflight's command a terminal, and there is none",
		lazyregexp.New(`(?i)input device is not a TTY|stdin is not a terminal|provided file is not a console`)},
	{EngineDenied, "this account may not enter the container",
		lazyregexp.New(`(?i)password is required|terminal is required|not in the sudoers|is not allowed to execute|permission denied while trying to connect|connect: permission denied|/ns/\w+: permission denied|reassociate to namespaces?.* failed: Operation not permitted|unshare: operation not permitted`)},
	{EngineDown, "its daemon is not running",
		lazyregexp.New(`(?i)cannot connect to the docker daemon|cannot connect to podman|cannot access containerd socket|failed to dial`)},
	{ContainerStopped, "the container is not running",
		lazyregexp.New(`(?i)is not running|is paused|container state improper|in a (stopped|paused) container|no running task found`)},
	{OtherArch, "the programs in the container are for another architecture",
		lazyregexp.New(`(?i)exec format error|image's architecture`)},
	{NoShellInside, "the container has no /bin/sh",
		lazyregexp.New("(?i)(exec: |executable file |stat |failed to execute:? )[\"`]?/bin/sh\\b")},
	{NoContainer, "there is no such container",
		lazyregexp.New(`(?i)no such (container|process|file or directory)|no container with name or ID|could not open image`)},
}
