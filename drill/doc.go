// Package drill tries what can only be known by trying: whether nodes reach
// each other on the addresses and ports a launch will use, with full packets,
// in both directions; whether they complete a rendezvous; whether they can log
// in to each other; how much they can send.
//
// It runs on the nodes. It refuses to judge, to repeat what failed (a link that
// works the second time is what we exist to find), and to leave a listener or a
// child behind: everything ends with its context. Strangers that call a
// listener are dropped: a call starts with a token that only this run knows.
package drill
