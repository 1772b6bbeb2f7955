// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"preflight/checks"
	"preflight/checks/fix"
)

// Inside is of what --in names, whatever carried us to the node.
var Inside = onLadder(checks.Check{ID: enterID}, nil)

var (
	tryInside = fix.On("{inside} true   # what preflight is put behind").Outside()
	startIt   = fix.Note("start the container of {nodes}, or correct its name in --in")
)

// insideFailures are those of what the ranks run in.
var insideFailures = map[string]failure{
	"no-engine": {
		summary:  "has no {program}, which --in is to enter by",
		fix:      []fix.Command{fix.On("echo $PATH; ls -d /usr/local/bin /snap/bin   # a start-up file may add to it for terminals alone").Outside(), fix.Note("name it by its whole path in --in, or leave {nodes} out of what the policy says of in")},
		wouldSee: "{node}: bash: line 1: {program}: command not found",
	},
	"engine-denied": {
		summary: "{program} does not let {user} in",
		got:     "{output}",
		fix: []fix.Command{
			tryInside,
			fix.On("sudo usermod -aG docker {user}   # docker; then log in anew").Outside(),
			fix.Note("or put sudo -n before it in --in, where sudo asks {user} for no password"),
		},
		wouldSee: "permission denied while trying to connect to the Docker daemon socket",
	},
	"engine-down": {
		summary:  "{program} has no daemon running",
		got:      "{output}",
		fix:      []fix.Command{fix.On("sudo systemctl start docker   # containerd for nerdctl").Outside(), fix.On("systemctl status docker containerd --no-pager | head -n 20").Outside()},
		wouldSee: "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
	},
	"no-container": {
		summary: "has nothing of the name that --in gives {program}",
		got:     "{output}",
		fix:     []fix.Command{fix.On("{program} ps -a   # ls of enroot list; of an image or a process whether it is there").Outside(), tryInside, startIt},
	},
	"container-stopped": {
		summary:  "what --in names is there and does not run",
		got:      "{output}",
		fix:      []fix.Command{fix.On("{program} ps -a   # whether it has ended or is paused, and its name").Outside(), fix.On("{program} start NAME   # or unpause, in place of NAME the container's").Outside()},
		wouldSee: "Error response from daemon: container … is not running",
	},
	"no-shell-inside": {
		summary:  "the image has no /bin/sh, by which our program comes there",
		got:      "{output}",
		fix:      []fix.Command{tryInside, fix.On("{program} run -v /bin/busybox:/bin/sh:ro …   # start the container of {nodes} anew with a static shell").Outside(), fix.Note("or build the image on one with a shell")},
		wouldSee: `exec: "/bin/sh": stat /bin/sh: no such file or directory`,
	},
	"other-arch": {
		summary:  "the image is for another kind of machine",
		got:      "{output}",
		fix:      []fix.Command{fix.On("uname -m").Outside(), fix.Note("build or pull the image for the kind of machine that {nodes} are")},
		wouldSee: "exec /bin/sh: exec format error",
	},
	"no-input": {
		summary:  "{program} does not pass our words on: -i is missing",
		fix:      []fix.Command{fix.Here("preflight -H {hostfile} --in '{program} exec -i train'   # with -i, whatever else this run has")},
		wouldSee: "nothing: the ranks are not started by this command",
	},
	"not-entered": {
		summary: "{program} did not start a shell in there",
		got:     "{message}",
		fix:     []fix.Command{tryInside},
	},
}

// givenTerminal is of whoever starts our command, a forced command too.
var givenTerminal = failure{
	summary: "our program is given a terminal, which alters what is said through it",
	got:     "{message}",
	fix: []fix.Command{
		fix.Here("preflight -H {hostfile} --in 'docker exec -i train'   # without -t, whatever else this run has"),
		fix.Note("or take -t out of the forced command in authorized_keys of {nodes}"),
	},
	wouldSee: "the input device is not a TTY",
}
