// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"

	"github.com/spf13/pflag"

	"preflight"
	"preflight/checks"
	"preflight/cmd/preflight/internal/usage"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/remote/meet"
)

func meetFlags(flags *pflag.FlagSet) {
	flags.String("meet-listen", ":29400", "with --via meet: address that the nodes must connect to within --timeout")
	flags.String("meet-token-file", "", "with --via meet: file that contains the token shared by the nodes and preflight (default: $"+tokenVariable+")")
}

// meet starts to listen for the nodes of a launch.
func (c *Config) meet(plan preflight.Plan) (*meet.Carrier, error) {
	token, err := meetToken(c.MeetToken)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", c.MeetListen)
	if err != nil {
		return nil, usage.WithHint(fmt.Errorf("--via meet: %w", err), "to listen on another port: --meet-listen :PORT")
	}
	called := map[string]string{}
	for _, host := range plan.Prediction.Hosts {
		called[host.Name] = hostfile.Bare(host.Name)
	}
	c.meeting = meet.Listen(listener, token, called)
	return c.meeting, nil
}

// conclude tells the nodes that have connected whether the launch may begin.
func (c *Config) conclude(r checks.Report) {
	if c.meeting == nil {
		return
	}
	why := "every check has passed"
	switch r.ExitCode {
	case exitPass:
	case exitTrouble:
		why = "some checks are unknown: see the report of preflight --via meet"
	default:
		why = fmt.Sprintf("%s: see the report of preflight --via meet", text.Plural(len(r.Findings), "finding"))
	}
	c.meeting.Conclude(meet.Verdict{Go: r.ExitCode == exitPass, Why: why})
}
