// SPDX-License-Identifier: Apache-2.0

// Package oracle compares preflight's predictions with the real programs. Clients of real torch
// releases connect to preflight's store, and preflight's client connects to their stores, in all
// generations. Their data is recorded, so that drill/c10d can replay it without torch. Releases of
// DeepSpeed, torchrun and accelerate read thousands of commands, most of them random. preflight
// must predict the result of each command, down to the words of an error.
//
// NVIDIA's mock of its management library reports GPUs to preflight's agent that this machine does
// not have.
//
// The tests have the build tag oracle, because they need about 6 GB that setup.sh installs. The
// tests are never skipped: a missing release is a failure. Only NVIDIA's mock may be missing, and
// the tests report this.
package oracle
