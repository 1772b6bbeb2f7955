// SPDX-License-Identifier: Apache-2.0

// Package checks judges a fleet of nodes before a launch: which facts will
// break it, on which nodes, and what to type.
//
// A check is a value in the catalogue. It gets the facts of the whole fleet and
// the prediction of the launch, and returns findings; Evaluate runs the
// catalogue, decides what could not be judged and folds equal findings.
//
// The package refuses to look: no file, no network, no clock, no environment,
// no process. A check that wants to know more is asking for a new fact. It
// refuses to guess: what was not seen is unknown, never a pass and never a
// fail. It refuses to act: a fix is text for a person, never run here. It does
// not print: package report renders what is found.
package checks
