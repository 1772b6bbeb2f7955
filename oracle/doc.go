// SPDX-License-Identifier: Apache-2.0

// Package oracle compares our predictions with the real programs. Clients of real torches call our
// store, and ours calls theirs, in all generations. Their data is recorded, so that drill/c10d can
// replay it without torch. Releases of DeepSpeed, torchrun and accelerate read thousands of
// commands, most of them random, and preflight must predict the result of each, down to the words
// of an error.
//
// NVIDIA's mock of its management library reports GPUs to our agent that this machine does not
// have.
//
// The tests have the build tag oracle, because they need about 6 GB that setup.sh installs. They
// are never skipped: a missing release is a failure. Only NVIDIA's mock may be missing, which is
// reported.
package oracle
