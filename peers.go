package preflight

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"
)

// PeerTime bounds how long the nodes' names are looked up before the nodes are
// reached. A name that takes longer is asked no route for; how every node
// resolves every name is a section of its own.
const PeerTime = 500 * time.Millisecond

// lookupsAtOnce keeps thousands of names from flooding a name server.
const lookupsAtOnce = 64

// peerAddresses is the first address of every name that resolves here, so that
// the nodes can say by which interface they would reach it.
func peerAddresses(ctx context.Context, names []string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, PeerTime)
	defer cancel()
	found := make([]string, len(names))
	var all sync.WaitGroup
	places := make(chan struct{}, lookupsAtOnce)
	for i, name := range names {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			host := name[strings.LastIndex(name, "@")+1:]
			if addresses, err := net.DefaultResolver.LookupHost(ctx, host); err == nil {
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
