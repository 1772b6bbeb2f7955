// SPDX-License-Identifier: Apache-2.0

// Package network judges whether the ranks will meet and talk over IP: the interface each
// chooses and the environment that chooses it, the calls between all nodes, the MTU, the
// master address and port, and the rendezvous that was tried.
//
// It refuses to report again what the names, the way in or the fabric explain.
package network
