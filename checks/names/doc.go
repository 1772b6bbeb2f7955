// SPDX-License-Identifier: Apache-2.0

// Package names says who leads where: the addresses that a node holds, what it takes a name
// for, what it calls itself, and who is the first of the launch.
//
// It refuses to resolve anything: what a node was not asked is not known.
package names
