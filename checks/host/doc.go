// SPDX-License-Identifier: Apache-2.0

// Package host judges the machine itself: its names, clock, memory, /dev/shm, disks and limits.
//
// It refuses to judge what runs on it.
package host
