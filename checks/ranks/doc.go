// Package ranks says what the ranks of a launch will run on and with: the nodes, their
// environment and where each setting of it comes from, the interpreter that answers, and the
// network that NCCL will use.
//
// It refuses to judge any of it.
package ranks
