// SPDX-License-Identifier: Apache-2.0

// Package oracle asks the real things whether we are right. Clients of real torches
// call our store, ours calls theirs, in all generations, and what is said on the
// wire is recorded for drill/c10d to replay where there is no torch. Releases of
// DeepSpeed, torchrun and accelerate read thousands of commands, most of them made
// up, and preflight has to foresee what becomes of each, down to the words with
// which it is refused.
//
// NVIDIA's stand-in for its management library tells our agent of GPUs that are not here.
//
// The tests are behind the build tag oracle, because they need what setup.sh
// fetches: about 6 GB. They refuse to be skipped: a release that is not there
// fails them; NVIDIA's stand-in alone may be missing, which is said.
package oracle
