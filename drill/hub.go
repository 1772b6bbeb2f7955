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

// hubScript goes to the Hub. It travels on a command line, and leaves no file.
//
//go:embed hub.py
var hubScript string

// Hub is by which interpreter, and with which variables beside a login's, a node is to go to the
// Hub of Hugging Face.
type Hub struct {
	Interpreter string          `json:"interpreter"`
	Env         []facts.Setting `json:"env,omitempty"`
	Deadline    time.Duration   `json:"deadline"`
}

// ToHub is how far it got, or why that could not be tried.
type ToHub struct {
	Hub     facts.Hub `json:"hub"`
	Problem string    `json:"problem,omitempty"`
}

// Run has the launch's own interpreter go there: proxies, certificates and OpenSSL are those that
// the ranks would use. Nothing is asked of the Hub, and it learns nothing but that somebody called.
func (h Hub) Run(ctx context.Context) (to ToHub) {
	env := os.Environ()
	for _, setting := range h.Env {
		env = append(env, setting.Name+"="+setting.Value)
	}
	out, errs, err := hostsys.Child{
		Path: h.Interpreter, Args: []string{"-B", "-c", hubScript, strconv.FormatFloat(h.Deadline.Seconds(), 'f', -1, 64)}, Env: env,
		Limit: h.Deadline, // it looks at the clock too, but where a name is looked up
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
