// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hostsys

import "time"

func sinceBoot() time.Duration { return time.Since(started) }

// active returns a time in which this process wanted to run all the time: whether it did is not known here.
func active() time.Duration { return time.Since(started) }
