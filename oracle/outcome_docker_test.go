// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import "preflight/testhosts"

// dockerFaults are launches whose logins land in containers of a real Docker daemon.
var dockerFaults = []planted{
	{name: "docker", steps: inDocker("nodes", "--network=host"), trains: "pdsh"},
	{name: "docker-bridge", steps: inDocker("nodes"), dies: "pdsh"},
	{name: "docker-bridge-first", steps: append(inDocker("w1"), inDocker("w2", "--network=host")...), dies: "pdsh"},
	// The rank with the larger address connects to the other one, which has its machine's network.
	{name: "docker-bridge-last", steps: append(inDocker("w1", "--network=host"), inDocker("w2")...), trains: "pdsh"},
	{name: "docker-hostname-shared", steps: inDocker("nodes", "--network=host", "--hostname=trainer"), dies: "pdsh"},
	{name: "docker-docker0-first", steps: append(change("w1", (*testhosts.Node).AddDocker0First), inDocker("nodes", "--network=host")...), dies: "pdsh"},
	{name: "docker-read-only", steps: inDocker("nodes", "--network=host", "--read-only", "--tmpfs=/tmp:exec"), trains: "pdsh"},
	{name: "docker-user-without-name", steps: inDocker("nodes", "--network=host", "--user=4242"), trains: "pdsh"},
}

// inDocker makes all logins to machines land in containers with these options of docker run.
func inDocker(where string, options ...string) []step {
	return change(where, (*testhosts.Node).StartDocker, func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.RunDocker("train", options...)
	}, func(n *testhosts.Node) (testhosts.Undo, error) { return n.LandInside("docker", "train") })
}
