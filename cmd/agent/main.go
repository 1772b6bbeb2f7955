// SPDX-License-Identifier: Apache-2.0

// Command agent is the program that runs on a node. It collects facts, runs tests and speaks
// preflight's protocol.
//
// preflight copies it to every node and starts it in every run, so it stays small: flags,
// configuration, checks and reports belong to the launching machine.
package main

import (
	"os"

	"preflight/agent"
	_ "preflight/portable"
)

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "agent" { // the words with which preflight itself is started if it is its own agent
		args = args[1:]
	}
	os.Exit(agent.Main(args))
}
