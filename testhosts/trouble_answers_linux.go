// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"context"
	"errors"
	"strings"
)

// between is a program between sshd and an agent. It starts the agent and passes the agent's lines
// on. Its function answered changes the body of each answer.
const between = `#!/usr/bin/python3
import json, os, subprocess, sys, threading

MARK = b"@@preflight "

def answered(body): pass

CHANGES

def answer(line):
    head, mark, text = line.partition(MARK)
    said, tab, body = text.partition(b"\t")
    try:
        a = json.loads(body)
        answered(a)
        return head + mark + said + tab + json.dumps(a).encode() + b"\n"
    except (ValueError, LookupError, TypeError):
        return line

agent = subprocess.Popen(["/bin/sh", "-c", os.environ["SSH_ORIGINAL_COMMAND"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

def requests():
    try:
        for line in sys.stdin.buffer:
            agent.stdin.write(line)
    except OSError:
        pass
    agent.stdin.close()

threading.Thread(target=requests, daemon=True).start()
for line in agent.stdout:
    sys.stdout.buffer.write(answer(line))
    sys.stdout.buffer.flush()
os._exit(agent.wait())
`

// ChangeAnswers changes the answers of the node's agent. changes is Python code that defines a
// function answered(body). The function changes one answer in place.
func (n *Node) ChangeAnswers(changes string) (Undo, error) {
	const path = "/root/between"
	if err := n.WriteFile(path, []byte(strings.Replace(between, "CHANGES", changes, 1)), 0o755); err != nil {
		return nil, err
	}
	undo, err := n.edit("/root/.ssh/authorized_keys", func(text string) string { return `command="` + path + `" ` + text })
	if err != nil {
		return nil, err
	}
	return func() error {
		_, err := n.Run(context.Background(), "rm", path)
		return errors.Join(err, undo())
	}, nil
}
