// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"context"
	"errors"
	"strings"
)

// between is what stands between sshd and an agent: it runs what was asked for, and changes
// what passes as its two functions say. Lines that are none of the wire pass as they are.
const between = `#!/usr/bin/python3
import json, os, subprocess, sys, threading

MARK = b"@@preflight "

def asked(method, params): pass
def answered(body): pass

LIES

def request(line):
    try:
        r = json.loads(line)
        asked(r["method"], r["params"])
        return json.dumps(r).encode() + b"\n"
    except (ValueError, LookupError, TypeError):
        return line

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
            agent.stdin.write(request(line))
    except OSError:
        pass
    agent.stdin.close()

threading.Thread(target=requests, daemon=True).start()
for line in agent.stdout:
    sys.stdout.buffer.write(answer(line))
    sys.stdout.buffer.flush()
os._exit(agent.wait())
`

// Lie puts a hostile program between sshd and the agent. The lies are Python: asked(method,
// params) may change what the agent is asked, answered(body) what it answers.
func (n *Node) Lie(lies string) (Undo, error) {
	const path = "/root/between"
	if err := n.WriteFile(path, []byte(strings.Replace(between, "LIES", lies, 1)), 0o755); err != nil {
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
