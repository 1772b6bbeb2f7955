// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

// jobFaults are faults of other jobs, containers and limits of the machine.
var jobFaults = []planted{
	// Another job trains beside this one. Ctrl-C of this one would end it.
	{name: "another-job", steps: sh("w1", `
mkdir /root/other
echo 'import time; time.sleep(600)' >/root/other/hold.py
cd /root/other
world=$(printf '{"w1": [0]}' | base64)
setsid "$bin/python" -u -m deepspeed.launcher.launch --world_info="$world" --node_rank=0 --master_addr=127.0.0.1 --master_port=29999 hold.py >/root/other/log 2>&1 </dev/null &
`), trains: "pdsh", warns: "launcher-ready w1"},
}
