// Package explain reads the wreck: from the log of a launch that died to the
// cause, the check that would have said so before, and the fix.
//
// What messages mean is data: causes.yaml holds the causes, signatures/ one file
// a family of programs, with patterns over message text, what they prove and
// where the program's source says so. The code knows nothing of any message. It
// takes off what launchers and terminals put around lines, finds signatures in
// what is left, and decides which of them came first and which only followed.
//
// The package refuses to guess: what no signature knows is left unblamed, and a
// message that the program itself shrugs off counts only where nothing shows
// that all went well. It reaches no node and runs nothing.
package explain
