// SPDX-License-Identifier: Apache-2.0

// Package gpu tests preflight on one real NVIDIA GPU. make gpu packs its test with preflight, for a
// machine that has neither Go nor a network nor sshd. It contains only tests.
package gpu
