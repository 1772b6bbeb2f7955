// SPDX-License-Identifier: Apache-2.0

// Package proof says what this run has tried between nodes, how much of it worked, and which
// nodes the failures accuse.
//
// It refuses to accuse more nodes than explain what failed.
package proof
