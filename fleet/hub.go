// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"slices"
	"strings"

	"preflight/agent"
	"preflight/drill"
	"preflight/facts"
	"preflight/internal/secret"
)

func (r *run) noHub() string { return r.Prediction.NoFetching(r.members.nodes()) }

// waysToHub lists the environment variables that determine how a node reaches the Hub.
var waysToHub = []string{"HF_ENDPOINT", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// hub makes every member that must download something connect to the Hub. It leaves out nodes that
// are configured not to connect.
func (r *run) hub(ctx context.Context, d Drill) {
	var exports []facts.Setting
	hidden := ""
	for _, export := range r.Prediction.Exports {
		switch isWay := slices.Contains(waysToHub, strings.ToUpper(export.Name)); {
		case isWay && export.Value == secret.Hidden:
			hidden = export.Name
		case isWay:
			exports = append(exports, export)
		}
	}
	r.each(ctx, d.Phase, r.members, d.Limit, func(ctx context.Context, m *member) error {
		switch {
		case len(r.Prediction.ToFetch(m.Node)) == 0:
			learn(m, &m.Hub, d.Section, facts.Hub{Unneeded: "its ranks download nothing, or are set to work offline"}, nil)
			return nil
		case hidden != "":
			m.miss(d.Section, "%s is exported to the ranks but preflight does not collect its value: check by hand whether they reach the Hub", hidden)
			return nil
		case m.Python == nil || !m.Python.Found:
			m.miss(d.Section, "no Python interpreter to connect with: see python-same")
			return nil
		}
		to, err := agent.GoToHub.Ask(ctx, m.agent, drill.Hub{Interpreter: m.Python.Path, Env: exports, Deadline: d.Limit})
		if err == nil && to.Problem != "" {
			m.miss(d.Section, "%s", to.Problem)
			return nil
		}
		learn(m, &m.Hub, d.Section, to.Hub, err)
		return err
	})
}
