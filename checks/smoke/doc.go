// SPDX-License-Identifier: Apache-2.0

// Package smoke judges what ranks computed and how they talked when they were let to, before
// the launch.
//
// It refuses to take a slow answer for a wrong one, and to blame a node that the trials did
// not prove to be at fault.
package smoke
