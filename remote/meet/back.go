// SPDX-License-Identifier: Apache-2.0

package meet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"preflight/internal/text"
)

// backTime is how long an agent that calls back waits for an answer. The launching machine waits
// longer for the call.
const backTime = 3 * time.Second

// Back says how an agent calls back to the launching machine. The agent reads a Back from its
// standard input.
type Back struct {
	To    []string `json:"to"` // addresses of the launching machine, HOST:PORT
	Token string   `json:"token"`
	Name  string   `json:"name"` // the variable that has the name of the agent's node
	// Near names the variable with the address at which Slurm's daemon on the node reached the
	// launching machine, "" for none. Port is the port to connect to at that address.
	Near string `json:"near,omitempty"`
	Port string `json:"port,omitempty"`
}

// CallBack connects to the launching machine as the first line of in says, and serves its requests
// with work. It returns an error only if no address answered. The launching machine reports how the
// conversation ended.
func CallBack(ctx context.Context, in io.Reader, work func(in io.Reader, out io.Writer) error) error {
	var back Back
	if err := json.NewDecoder(bufio.NewReader(in)).Decode(&back); err != nil {
		return fmt.Errorf("could not read where to call: %w", err)
	}
	to := back.To
	if near := os.Getenv(back.Near); near != "" {
		to = append([]string{net.JoinHostPort(near, back.Port)}, to...)
	}
	slices.Sort(to)
	l, err := firstOf(ctx, slices.Compact(to), os.Getenv(back.Name), back.Token)
	if err != nil {
		return err
	}
	defer l.Close()
	_ = l.serve(work)
	return nil
}

// firstOf connects to all addresses at the same time, and returns the first connection whose other
// end knows the token.
func firstOf(ctx context.Context, to []string, node, token string) (*line, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		conn net.Conn
		err  error
	}
	answers := make(chan answer)
	for _, address := range to {
		go func() {
			conn, err := dialer(backTime).DialContext(ctx, "tcp", address)
			select {
			case answers <- answer{conn, err}:
			case <-ctx.Done(): // another address was faster
				if conn != nil {
					conn.Close()
				}
			}
		}()
	}
	var failed []string
	for range to {
		a := <-answers
		if a.err == nil {
			l := newLine(a.conn)
			if a.err = l.introduce(node, token); a.err == nil {
				return l, nil
			}
			l.Close()
		}
		failed = append(failed, text.Escape(a.err.Error()))
	}
	slices.Sort(failed) // so that many nodes report the same text
	return nil, errors.New(strings.Join(failed, "; "))
}
