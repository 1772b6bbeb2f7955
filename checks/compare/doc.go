// SPDX-License-Identifier: Apache-2.0

// Package compare holds nodes, versions and sizes against each other: who stands apart from
// most, the partitions of nodes that a policy has unlike, and the diff of a fleet.
//
// It refuses to blame where no value has a majority, and to take an absent value for none.
package compare
