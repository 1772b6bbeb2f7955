// SPDX-License-Identifier: Apache-2.0

// Command agent is what runs on a node: the wire, what is looked at there and what is tried.
//
// It refuses everything else, for each node is sent the whole of it and starts it in every
// run: flags, configuration, judging and rendering are the launching machine's.
package main

import (
	"os"

	"preflight/agent"
	_ "preflight/portable"
)

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "agent" { // as the whole preflight is called, where that is what was sent
		args = args[1:]
	}
	os.Exit(agent.Main(args))
}
