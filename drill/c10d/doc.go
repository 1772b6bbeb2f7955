// Package c10d speaks the protocol of torch's TCPStore, as a client and as a
// server, in its three generations.
//
// The server answers all that torch's ranks may ask; the client asks no more than
// a rendezvous needs.
//
// Keys travel as they are given. torch puts a "/" before every key its users
// name, and none before init/, the count of those who joined.
//
// It refuses to disturb: a running job's store is only ever asked complete
// requests that change nothing. It refuses to grow: what a peer announces is
// believed only as it arrives, and a store has a size it does not pass.
//
// The facts are pytorch/pytorch, torch/csrc/distributed/c10d: TCPStore.cpp (1.13
// for the oldest generation), TCPStoreBackend.cpp and TCPStoreLibUvBackend.cpp;
// testdata holds what releases of it really said.
package c10d
