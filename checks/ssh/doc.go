// SPDX-License-Identifier: Apache-2.0

// Package ssh judges the way in to every node, and between them: one ladder of checks, of which
// a node fails one.
//
// It refuses to advise anything that waves a host key through or asks for a password.
package ssh
