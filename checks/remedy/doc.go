// Package remedy builds the commands that several families give: pip in the interpreter of the
// launch, the packages of a distribution and of a driver, copies between machines, containers
// started anew.
//
// It refuses to run them, and to quote by itself: that is package fix's.
package remedy
