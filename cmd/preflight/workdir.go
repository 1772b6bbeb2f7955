// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"preflight/cmd/preflight/internal/usage"
)

// workingDirectory is where the launch would be typed. One that was taken away, or that this
// account may not enter, as after su or sudo -u, says so itself: nobody has named it.
func workingDirectory() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", usage.WithHint(fmt.Errorf("the working directory, in which the launch would run, cannot be entered: %w", err),
			"cd to one that this account may enter, as cd ~, and type it again")
	}
	return dir, nil
}
