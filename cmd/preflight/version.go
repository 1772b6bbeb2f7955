// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"preflight/checks"
	"preflight/report"
)

// versionOf is what a program asks before it reads anything else of ours.
type versionOf struct {
	Schema  int    `json:"schema"` // of every JSON document
	Version string `json:"version"`
	Go      string `json:"go"`
	System  string `json:"system"` // as Go names it: linux/amd64
}

func versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which preflight this is, and with --format json which schema its JSON has",
		Args:  arguments(0, 0, "takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			this := versionOf{checks.Schema, Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if cmd.Flag("format").Value.String() == "json" {
				return report.JSON(os.Stdout, this)
			}
			_, err := fmt.Printf("preflight version %s\n", this.Version)
			return err
		},
	}
	formatFlag(cmd, plainFormats...)
	return cmd
}
