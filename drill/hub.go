// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/text"
)

// hubScript connects to the Hub. preflight passes it on a command line, so it leaves no file.
//
//go:embed hub.py
var hubScript string

// Hub says how a node must connect to the Hugging Face Hub. It holds the interpreter, and the
// variables to set in addition to those of a login.
type Hub struct {
	Interpreter string          `json:"interpreter"`
	Env         []facts.Setting `json:"env,omitempty"`
	Deadline    time.Duration   `json:"deadline"`
}

// ToHub says how far the connection got, or why it could not be tried.
type ToHub struct {
	Hub     facts.Hub `json:"hub"`
	Problem string    `json:"problem,omitempty"`
}

// Run connects with the launch's own interpreter. So the proxies, certificates and OpenSSL are the
// ones that the ranks would use. It sends no request to the Hub.
func (h Hub) Run(ctx context.Context) (to ToHub) {
	env := os.Environ()
	for _, setting := range h.Env {
		env = append(env, setting.Name+"="+setting.Value)
	}
	out, errs, err := hostsys.Child{
		Path: h.Interpreter, Args: []string{"-B", "-c", hubScript, strconv.FormatFloat(h.Deadline.Seconds(), 'f', -1, 64)}, Env: env,
		Limit: h.Deadline, // the script also checks the time, except during a name lookup
	}.Run(ctx)
	lines := slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool { return !strings.HasPrefix(line, "{") })
	isLate := errors.Is(err, context.DeadlineExceeded)
	switch {
	case err != nil && !isLate:
		to.Problem = "the interpreter: " + cmp.Or(lastLine(errs), err.Error())
	case len(lines) == 0:
		to.Problem = "the interpreter did not start within " + text.Duration(h.Deadline.Seconds())
	default:
		if err = json.Unmarshal([]byte(lines[len(lines)-1]), &to.Hub); err != nil {
			to.Problem = "the interpreter: " + err.Error()
		}
	}
	return to
}
