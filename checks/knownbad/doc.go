// SPDX-License-Identifier: Apache-2.0

// Package knownbad holds nodes against versions, and combinations of them, that are known to
// fail: a table of what others have found out, each entry with where it says so.
//
// It refuses to guess. An entry tells of what a node has shown to be, and of nothing else: where
// one of its conditions was not seen and all others hold, the node is unknown.
package knownbad
