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

// hubScript connects to the Hub. It is passed on a command line, and leaves no file.
//
//go:embed hub.py
var hubScript string

// Hub is the interpreter, and the variables in addition to a login's, with which a node must
// connect to the Hugging Face Hub.
type Hub struct {
	Interpreter string          `json:"interpreter"`
	Env         []facts.Setting `json:"env,omitempty"`
	Deadline    time.Duration   `json:"deadline"`
}

// ToHub is how far it got, or why it could not be tried.
type ToHub struct {
	Hub     facts.Hub `json:"hub"`
	Problem string    `json:"problem,omitempty"`
}

// Run connects with the launch's own interpreter, so that proxies, certificates and OpenSSL are
// those that the ranks would use. It sends the Hub no request.
func (h Hub) Run(ctx context.Context) (to ToHub) {
	env := os.Environ()
	for _, setting := range h.Env {
		env = append(env, setting.Name+"="+setting.Value)
	}
	out, errs, err := hostsys.Child{
		Path: h.Interpreter, Args: []string{"-B", "-c", hubScript, strconv.FormatFloat(h.Deadline.Seconds(), 'f', -1, 64)}, Env: env,
		Limit: h.Deadline, // the script watches the clock too, except during a name lookup
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
