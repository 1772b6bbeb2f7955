// Package hostsys is what preflight needs of the machine it runs on, whichever
// part of it runs there: a name resolved as the C library of the machine would
// ([Names]), and a program that ends when we do ([Child], [Run], [Start]).
//
// It refuses to know why it is asked: no node, no launch and no fact is known
// here, and it imports nothing of ours.
package hostsys
