// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hostsys

import "time"

func sinceBoot() time.Duration { return time.Since(started) }
