// SPDX-License-Identifier: Apache-2.0

// Package engine evaluates a catalogue of checks over a fleet: what each check can see, in
// which order they run, what the policy makes of their findings, and what the report comes to.
//
// It refuses to know a check: what it has to know of one is declared on it (Needs,
// DependsOn, Rung). It refuses to look or to act, and to say one thing twice.
package engine
