// Package c10d speaks the protocol of torch's TCPStore, as a client and as a
// server, in its three generations.
//
// It refuses to disturb: a running job's store is only ever asked complete
// requests that change nothing.
package c10d
