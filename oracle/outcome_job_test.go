// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import "slices"

// jobFaults are faults of other jobs, containers and limits of the machine.
var jobFaults = []planted{
	// Another job trains at the same time. Ctrl-C of this one would end it.
	{name: "another-job", steps: sh("w1", `
mkdir /root/other
echo 'import time; time.sleep(600)' >/root/other/hold.py
cd /root/other
world=$(printf '{"w1": [0]}' | base64)
setsid "$bin/python" -u -m deepspeed.launcher.launch --world_info="$world" --node_rank=0 --master_addr=127.0.0.1 --master_port=29999 hold.py >/root/other/log 2>&1 </dev/null &
`), trains: "pdsh", warns: "launcher-ready w1"},

	// What the script does on its nodes.
	{name: "no-semaphores", steps: sh("w2", "mount -t tmpfs -o ro none /dev/shm"), files: importing(workers), dies: "pdsh"},
	{name: "no-semaphores-needed", steps: sh("w2", "mount -t tmpfs -o ro none /dev/shm"), trains: "pdsh"},
	{name: "output-elsewhere-read-only", arguments: []string{"--output_dir", "/root/out"}, steps: slices.Concat(sh("nodes", "mkdir /root/out"), sh("w2", "mount -t tmpfs -o ro none /root/out")), files: trainingWith(checkpoint), trains: "pdsh"},
	{name: "vocabulary-of-one", arguments: []string{"--vocab_file", "/root/vocab.json"}, steps: sh("w1", "echo {} >/root/vocab.json"), files: importing("import sys; open(sys.argv[sys.argv.index('--vocab_file') + 1])\n"), dies: "pdsh c10d"},
	{name: "log-of-one", arguments: []string{"--log_file", "/root/log.txt"}, steps: sh("w1", "echo old >/root/log.txt"), trains: "pdsh c10d"},
}
