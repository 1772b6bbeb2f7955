// SPDX-License-Identifier: Apache-2.0

// Package agreement holds a fleet to what a team has stated (the expectations of a policy) or
// recorded (a baseline).
//
// It refuses to judge what a launch needs, which is the families' to say, and to pass what
// nobody was to look at: that is left out, and said.
package agreement
