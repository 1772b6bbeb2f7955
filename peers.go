package preflight

import (
	"context"
	"net"
	"sync"
	"time"

	"preflight/hostfile"
)

// peerTime bounds how long the nodes' names are looked up before the nodes are
// reached. A name that takes longer is asked no route for; how every node
// resolves every name is a section of its own.
const peerTime = 500 * time.Millisecond

// lookupsAtOnce keeps thousands of names from flooding a name server.
const lookupsAtOnce = 64

// peerAddresses is the first address of every name that resolves here, so that
// the nodes can say by which interface they would reach it.
func peerAddresses(ctx context.Context, names []string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, peerTime)
	defer cancel()
	found := make([]string, len(names))
	var all sync.WaitGroup
	places := make(chan struct{}, lookupsAtOnce)
	for i, name := range names {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			if addresses, err := net.DefaultResolver.LookupHost(ctx, hostfile.Bare(name)); err == nil {
				found[i] = addresses[0]
			}
		})
	}
	all.Wait()
	peers := map[string]string{}
	for i, address := range found {
		if address != "" {
			peers[names[i]] = address
		}
	}
	return peers
}
