// Package remote gets typed calls to a preflight that runs on another machine: a
// [Carrier] logs in there (package remote/ssh is one), and this package sees to it
// that our binary lies on the node, starts it and speaks with it. Every node costs one
// connection and one command. What stops a node on the way is an [Error], which
// names the step and the cause; what was met there is in the [Trace].
//
// The two ends are [Client.Reach], which returns a talking [Agent], and [Serve],
// which is that agent. Between them are lines of JSON (wire.go) that know nothing
// of what carries them.
//
// The command is one constant that every login shell passes on unread; what
// differs from node to node travels on its stdin. It becomes our binary if that
// lies in a private directory of the node under the name of its SHA-256, and asks
// for it otherwise (deliver.go, deliver.sh).
//
// The package refuses to know what is asked and what the answers mean. It refuses
// to retry: a link that works the second time is what preflight exists to find.
// It refuses to change anything on a node but our own cached binary, of which it keeps
// a few builds and [Client.Clean] removes all. And it does not trust a node: what
// one sends is bounded, escaped before it gets into an error, and named as what it
// is.
package remote
