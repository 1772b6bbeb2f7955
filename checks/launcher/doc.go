// Package launcher judges what starts the ranks, as it will really do it: its programs and
// arguments, what it exports, and the working directory, script and files that the nodes need.
//
// It refuses to judge another launcher than the one that is meant.
package launcher
