// Package drill tries what can only be known by trying: whether nodes complete a
// rendezvous, who is at an endpoint, whether nodes can log in to each other, what
// becomes of the pdsh of a launch. Packages mesh and c10d have what takes more:
// the calls of nodes to each other, and torch's store.
//
// It runs on the nodes. It refuses to judge, to repeat what failed (a link that
// works the second time is what we exist to find), and to leave a listener or a
// child behind: everything ends with its context. Strangers that call a
// listener are dropped: a call starts with a token that only this run knows.
package drill
