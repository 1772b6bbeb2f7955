// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"net/netip"
	"slices"

	"preflight/agent"
	"preflight/drill/mesh"
	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/launch"
)

func (r *run) noCallBack() string { return r.Prediction.NoCallBack(r.fleet.Head) }

// anywhere is the address on which mpirun listens: all interfaces.
const anywhere = "0.0.0.0"

// callBack makes the launching machine listen as mpirun does, and makes every member call it as
// mpirun's daemon does.
func (r *run) callBack(ctx context.Context, d Drill) {
	back := r.Prediction.CallBack(r.fleet.Head)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listener, err := mesh.Open(mesh.Listen{Token: r.token, Node: r.fleet.Head.Name, Addresses: []string{anywhere}, Low: back.Low, High: back.High})
	why := ""
	if err != nil {
		why = err.Error()
	} else {
		go listener.Serve(ctx)
		why = listener.Listening()[0].Error
	}
	if why != "" {
		for _, m := range r.members {
			m.miss(d.Section, "the launching machine could not listen: %s", why)
		}
		return
	}
	ports := listener.Listening()[0].Ports
	r.each(ctx, d.Phase, r.members, d.Limit, func(ctx context.Context, m *member) error {
		to, known := back.Addresses, back.Addresses != nil
		if back.Name != "" {
			to, known = calledAt(m.Node, back.Name)
		}
		switch {
		case !known && back.Name == "":
			m.miss(d.Section, "could not read which addresses of the launching machine mpirun will use")
			return nil
		case !known:
			m.miss(d.Section, "could not read whether the node resolves %s, the name that mpirun gives it to call back", back.Name)
			return nil
		}
		turn := m.position % len(ports) // even if the members do not call all ports, each port is called by some member
		calls := mesh.Calls{Token: r.token, Node: m.Name, AllPorts: len(r.members) <= allPorts, Deadline: d.Limit}
		for _, address := range to {
			calls.Peers = append(calls.Peers, mesh.Peer{Name: r.fleet.Head.Name, Address: address, Ports: slices.Concat(ports[turn:], ports[:turn])})
		}
		w := hostsys.BeginWait()
		seen, err := agent.Call.Ask(ctx, m.agent, calls)
		result := facts.CallBack{Name: back.Name, Error: seen.Error, Failed: seen.Failed}
		r.excuse(result.Failed, m, w)
		_, answers := seen.Reached[r.fleet.Head.Name] // the node reached the launching machine at one address or more
		for _, address := range to {
			if answers && !slices.ContainsFunc(seen.Failed, func(path facts.Path) bool { return path.To == address }) {
				result.Reached = append(result.Reached, address)
			}
		}
		learn(m, &m.CallBack, d.Section, result, err)
		return err
	})
}

// calledAt returns the addresses to which a node connects when Hydra gives it a name. These are the
// name's first IPv4 address, or none. known is false if the result of the node's lookup is unknown.
//
// Source: pmodels/mpich 4.0, src/mpl/src/sock/mpl_sockaddr.c, MPL_get_sockaddr, which uses AF_INET
// by default.
func calledAt(node *facts.Node, name string) (addresses []string, known bool) {
	all, known := launch.LookedUp(node.Names, name)
	if i := slices.IndexFunc(all, netip.Addr.Is4); i >= 0 {
		addresses = []string{all[i].String()}
	}
	return addresses, known
}
