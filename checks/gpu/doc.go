// SPDX-License-Identifier: Apache-2.0

// Package gpu judges the GPUs of a launch and their driver, and whether the slots fit them.
//
// It refuses to judge a GPU that the launch does not use.
package gpu
