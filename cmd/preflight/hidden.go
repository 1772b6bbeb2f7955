// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"preflight/cmd/preflight/internal/usage"
)

// manCommand writes the manual, a page for every command that has help. Packages call
// it; nobody types it. The date on the pages is SOURCE_DATE_EPOCH where that is set, so
// that one commit makes the same pages every day.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write the manual pages", Hidden: true, Args: arguments(1, 1, "needs one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
				return usage.WithHint(errors.New(args[0]+" is not a directory"), "mkdir -p %s", args[0])
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // it would tell the day they were written on, and who wrote cobra
			return manual(root, doc.GenManHeader{
				Section: "1", Source: "preflight " + Version, Manual: "Distributed training",
			}, args[0])
		},
	}
}
