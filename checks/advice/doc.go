// SPDX-License-Identifier: Apache-2.0

// Package advice says which environment and arguments this run has proven to work, and what
// the ranks will talk by.
//
// It refuses to advise what no drill has tried; what merely follows from the facts is kept
// apart from that.
package advice
