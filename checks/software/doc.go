// Package software judges what is installed for the ranks: python, torch, NCCL, protobuf,
// DeepSpeed and what it compiles, and the other packages that matter.
//
// It refuses to say which version is good: alike on all nodes is, or what a policy states.
package software
