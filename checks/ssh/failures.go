// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/remedy"
)

// The ways in that Slurm has beside ssh, inside a job and from without.
var (
	viaSrun     = fix.Here("preflight --via srun   # with the options of this run: srun takes it to the nodes of the job, as it does the ranks")
	viaSSH      = fix.Here("preflight --via ssh   # with the options of this run: where nodes let ssh in")
	viaSrunAnew = fix.Here("salloc --nodelist={nodes} preflight --via srun   # with the options of this run: srun takes it to the nodes of a job")
)

// ownFile gives a file of the user back to him.
var ownFile = fix.Here(`sudo chown "$(id -un)" {file} && chmod 600 {file}`)

// headLimit is of the launching machine, whatever is said of the node.
var headLimit = failure{
	verdict: checks.Unknown,
	summary: "a limit of the launching machine itself was in the way: {message}",
	fix: []fix.Command{
		fix.Here("sudo prlimit --pid $$ --nofile={files}:{files}   # in the shell that preflight is typed in; ulimit -n {files} does where its hard limit, ulimit -Hn, allows it"),
		fix.Here("ulimit -a; cat /proc/sys/fs/file-nr /proc/sys/net/ipv4/ip_local_port_range; free -m   # on the launching machine: what it may have, and has"),
	},
}

// headStood is of the launching machine too.
var headStood = failure{
	verdict: checks.Unknown,
	summary: "the launching machine was stopped or asleep while it was looked at, and once more when all was looked at anew: {message}",
	fix:     []fix.Command{fix.Here("preflight -H {hostfile}   # again, on a machine that stays awake, and not stopped by Ctrl-Z")},
}

// headBusy as well.
var headBusy = failure{
	verdict: checks.Unknown,
	summary: "the launching machine was too busy with its own work to tell: {message}",
	fix:     []fix.Command{fix.Here("uptime; ps -eo pcpu,pid,user,args --sort=-pcpu | head   # what keeps it busy: run preflight where there is less load, or with a longer --timeout")},
}

// headCut is of the launching machine as well, or of what is next to it.
var headCut = failure{
	verdict: checks.Unknown,
	summary: "every node answered at first and none does any more, nor takes a new connection: the launching machine's own network was lost, or a switch that all are behind",
	got:     "{seen}",
	fix: []fix.Command{
		fix.Here("ip -br link; ip -br addr; ip route   # on the launching machine: is its link up, does it have its address"),
		fix.Here("ssh -o ConnectTimeout=10 {node} uptime"),
	},
}

// failures has one entry for every cause of package remote, by the check that fails and by
// the cause's text, "" for the check of the stage it happened at. What ssh prints
// is quoted from OpenSSH 9.2.
var failures = map[string]map[string]failure{
	"ssh-reach": {
		"name-unknown": {
			summary:  "the name does not resolve on the launching machine",
			fix:      []fix.Command{fix.Here("getent ahosts {host}"), fix.Here(`echo "<address> {host}" | sudo tee -a /etc/hosts   # or correct the name in the hostfile`)},
			wouldSee: "{node}: ssh: Could not resolve hostname {host}: Name or service not known",
		},
		"refused": {
			summary: "refuses connections on port {port}: no SSH server listens there",
			fix: []fix.Command{
				fix.Console("sudo systemctl start sshd   # on {node}'s console; the unit is called ssh on Debian and Ubuntu"),
				fix.Console("sudo ss -tlnp   # there: when sshd listens on another port, give it with --ssh_port or as Port in ~/.ssh/config"),
			},
			wouldSee: "{node}: ssh: connect to host {host} port {port}: Connection refused",
		},
		"timed-out": {
			blames:  hostOrPort,
			summary: "does not answer on port {port}: it is down, or a firewall drops the packets",
			fix: []fix.Command{
				fix.Here("ping -c 3 {host}"),
				fix.Console("sudo iptables -S INPUT; sudo nft list ruleset   # on {node}'s console: look for DROP"),
				fix.Console("sudo firewall-cmd --permanent --add-port={port}/tcp && sudo firewall-cmd --reload   # there, where firewalld rules"),
			},
			wouldSee: "{node}: ssh: connect to host {host} port {port}: Connection timed out",
		},
		"black-hole": {
			blames:  host,
			summary: "small packets pass on the way {direction} it and full ones vanish: an MTU between is smaller than the interfaces'",
			got:     "packets of {mtu} bytes are lost, which is the MTU of the interface here; ssh hangs as soon as one is needed",
			fix: []fix.Command{
				fix.Here("ping -c 1 -M do -s {size} {host}   # lost; lower -s until it passes: the MTU is 28 more (over IPv6 48)"),
				fix.Here("ip route get $(getent ahosts {host} | awk 'NR==1 {print $1}')   # behind dev: the interface here"),
				fix.Console("sudo ip link set dev <interface> mtu <what passes>   # here and on {node}'s console; or raise it on the switch ports and tunnels between"),
			},
			wouldSee: "nothing: ssh hangs with the command on its way to {node}, and the other nodes wait for it",
		},
		"no-route": {
			blames:  hostOrPort,
			summary: "cannot be reached: no route, or a firewall rejects the connection",
			fix: []fix.Command{
				fix.Here("ip route get $(getent ahosts {host} | awk 'NR==1 {print $1}')"),
				fix.Here("ping -c 3 {host}"),
				fix.Console("sudo firewall-cmd --permanent --add-port={port}/tcp && sudo firewall-cmd --reload   # on {node}'s console, where firewalld rejects"),
			},
			wouldSee: "{node}: ssh: connect to host {host} port {port}: No route to host",
		},
		"jump-failed": {
			summary:  "its jump host {jump} could not be passed",
			got:      "{message}",
			fix:      []fix.Command{fix.Here("ssh -v -o BatchMode=yes {jump} true")},
			wouldSee: "{node}: Connection closed by UNKNOWN port 65535",
		},
		"proxy-failed": {
			summary:  "the ProxyCommand on the way to it failed",
			got:      "{message}",
			fix:      []fix.Command{fix.Here("ssh -G {node} | grep -i proxycommand"), remedy.TryBySSH},
			wouldSee: "{node}: Connection closed by UNKNOWN port 65535",
		},
		"not-ssh": {
			summary: "something else than an SSH server answers on port {port}",
			got:     "{greeting}",
			fix: []fix.Command{
				fix.Console("sudo ss -tlnp sport = :{port}   # on {node}'s console: who holds the port"),
				fix.Console("sudo ss -tlnp   # there: which port sshd has; give it with --ssh_port or as Port in ~/.ssh/config"),
			},
			wouldSee: "{node}: kex_exchange_identification: Connection closed by remote host",
		},
		"closed-before-banner": {
			summary: "accepts the connection and closes it before any greeting: MaxStartups, a penalty for earlier failures, or TCP wrappers",
			fix: []fix.Command{
				fix.Console(`sudo sshd -T | grep -i 'maxstartups\|persource'   # on {node}'s console`),
				fix.Console("echo 'MaxStartups 200:30:400' | sudo tee /etc/ssh/sshd_config.d/10-maxstartups.conf && sudo systemctl reload sshd   # there"),
				fix.Here("cat /etc/hosts.allow /etc/hosts.deny   # there"),
			},
			wouldSee: "{node}: kex_exchange_identification: Connection closed by remote host",
		},
		"silent": {
			blames:   host,
			summary:  "accepts the connection on port {port} and says nothing: sshd is stopped or the machine hangs",
			fix:      []fix.Command{fix.Here("ps -C sshd -o pid,stat,wchan:20,cmd   # on {node}'s console: T is stopped, D hangs on a disk"), fix.Console("sudo systemctl restart sshd   # there"), remedy.LastWords},
			wouldSee: "{node}: Connection timed out during banner exchange",
		},
		"no-common-algorithm": {
			summary: "its SSH server and we have no {kind} in common",
			got:     "it offers {offered}",
			fix: []fix.Command{
				remedy.TryBySSH,
				fix.Console(`sudo sshd -T | grep -i 'algorithms\|ciphers\|macs'   # on {node}'s console: widen what it allows, or upgrade its openssh-server`),
			},
			wouldSee: "{node}: Unable to negotiate with {host} port {port}: no matching {kind} found.",
		},
		"head-limit": headLimit,
		"head-stood": headStood,
		"head-busy":  headBusy,
		"interrupted": {
			verdict: checks.Unknown,
			summary: "had not answered when the run was interrupted",
		},
	},
	"ssh-host-key": {
		"host-key-unknown": {
			summary: "its host key is not in known_hosts, and a launcher has no terminal to ask on",
			fix:     []fix.Command{remedy.ShowKeys, remedy.TrustKeys, remedy.AskForKey},
		},
		"known-hosts-unreadable": {
			summary:  "no host key is known of it, for {file} cannot be read here: {reason}",
			fix:      []fix.Command{ownFile, fix.Here("namei -l {file}   # each directory on the way needs an x")},
			wouldSee: "{node}: Host key verification failed.",
		},
		"host-key-changed": {
			summary:  "its host key is not the one known_hosts has: installed anew, or something else answers under this name",
			got:      "{type} {fingerprint} against {file} line {line}",
			fix:      []fix.Command{remedy.ShowKeys, fix.Here("ssh-keygen -f {file} -R {name}"), remedy.TrustKeys},
			wouldSee: "{node}: WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!",
		},
		"host-key-revoked": {
			summary:  "its host key is marked as revoked",
			got:      "{file} line {line}",
			fix:      []fix.Command{fix.Console("sudo rm /etc/ssh/ssh_host_*_key* && sudo ssh-keygen -A && sudo systemctl restart sshd   # on {node}'s console: new keys"), remedy.ShowKeys, remedy.TrustKeys},
			wouldSee: "{node}: WARNING: REVOKED HOST KEY DETECTED!",
		},
		"host-key-other-algorithm": {
			summary: "known_hosts has a key of it, but of an algorithm it does not offer",
			got:     "known is {known}, it shows {type}",
			fix:     []fix.Command{remedy.ShowKeys, remedy.TrustKeys, remedy.AskForKey},
		},
	},
	"ssh-login": {
		"no-key": {
			summary:  "there is no key here to log in with",
			got:      "looked at {looked}",
			installs: true,
			wouldSee: remedy.DeniedBy,
		},
		"keys-refused": {
			summary:  "refuses every key offered to it",
			got:      "as {user}: {offered}",
			installs: true,
			wouldSee: remedy.DeniedBy,
			fix: []fix.Command{
				fix.Here("ls -ld ~{user} ~{user}/.ssh ~{user}/.ssh/authorized_keys   # on {node}'s console: sshd ignores keys that others may write"),
				fix.Here("chmod go-w ~{user} && chmod 700 ~{user}/.ssh && chmod 600 ~{user}/.ssh/authorized_keys   # there"),
				fix.Console("sudo passwd -S {user}   # there: L is a locked account, into which sshd without PAM lets nobody"),
				fix.Console("sudo passwd -u {user} || sudo usermod -p '*' {user}   # there, if it says L; the * is for one that never had a password: it takes keys and no password"),
				remedy.LastLogin,
			},
		},
		"key-locked": {
			summary:  "the key {file} is locked by a passphrase, and no agent holds it",
			fix:      []fix.Command{fix.Here(`eval "$(ssh-agent -s)" && ssh-add {file}`)},
			wouldSee: remedy.DeniedBy,
		},
		"key-permissions": {
			summary:  "ssh ignores the key {file}: others may read it (mode {mode})",
			fix:      []fix.Command{fix.Here("chmod 600 {file}")},
			wouldSee: "{node}: Permissions {mode} for '{file}' are too open.",
		},
		"key-unreadable": {
			summary:  "the key {file} cannot be read here: {reason}",
			fix:      []fix.Command{ownFile, fix.Here("namei -l {file}   # each directory on the way needs an x")},
			wouldSee: `{node}: Load key "{file}": Permission denied`,
		},
		"key-broken": {
			summary:  "{file} is no private key: {reason}",
			fix:      []fix.Command{fix.Here("ssh-keygen -y -f {file}   # what ssh makes of it"), fix.Here("grep -n IdentityFile ~/.ssh/config /etc/ssh/ssh_config   # what names it")},
			wouldSee: `{node}: Load key "{file}": invalid format`,
		},
		"agent-unreachable": {
			summary:  "the ssh agent does not answer at {socket}",
			fix:      []fix.Command{fix.Here("ssh-add -l"), fix.Here(`eval "$(ssh-agent -s)" && ssh-add`)},
			wouldSee: remedy.DeniedBy,
		},
		"password-only": {
			summary:  "lets in only who answers a prompt",
			got:      "it accepts {methods}",
			wouldSee: remedy.DeniedBy,
			fix:      []fix.Command{remedy.CopyID, fix.Console(`sudo sshd -T | grep -i 'pubkeyauthentication\|authenticationmethods'   # on {node}'s console`)},
		},
		"account-closed": {
			summary:  "the account {user} is closed there",
			got:      "{message}",
			fix:      []fix.Command{fix.Console("sudo chage -l {user}; sudo passwd -S {user}; cat /run/nologin /etc/nologin   # on {node}'s console"), fix.Console("sudo chage -E -1 {user} && sudo passwd -u {user}   # there")},
			wouldSee: "{node}: Your account has expired; please contact your system administrator.",
		},
		"no-job": {
			summary:  "Slurm lets in only who has a job there (pam_slurm_adopt), and {user} has none",
			got:      "{message}",
			fix:      []fix.Command{viaSrunAnew, fix.Here("salloc --nodelist={nodes}   # or launch in there: whoever has a job on a node is let in by ssh")},
			wouldSee: "{node}: Access denied by pam_slurm_adopt: you have no active jobs on this node",
		},
	},
	"ssh-shell": {
		"session-refused": {
			summary:  "lets us in but refuses to run a command",
			got:      "{message}",
			fix:      []fix.Command{fix.Console(`sudo sshd -T -C user={user} | grep -i 'maxsessions\|forcecommand\|subsystem'   # on {node}'s console: MaxSessions must not be 0`)},
			wouldSee: "{node}: channel 0: open failed: connect failed: open failed",
		},
		"no-shell": {
			summary: "the account {user} has no usable login shell there",
			got:     "{message}",
			fix: []fix.Command{
				fix.Here("getent passwd {user}   # on {node}'s console: where the last field is a shell as bash, a start-up file of it says exit"),
				fix.Here(`grep -n 'exit\|exec\|set -e' ~{user}/.bashrc ~{user}/.bash_profile ~{user}/.profile ~{user}/.zshenv /etc/bash.bashrc   # there: which of them ended the login with status {status}`),
				fix.Console("sudo usermod -s /bin/bash {user}   # there, where the last field is nologin, false or no shell that is there"),
			},
			wouldSee: "{node}: This account is currently not available.",
		},
		"forced-command": {
			summary:  "runs another command than the one it is asked to run",
			got:      "{output}",
			fix:      []fix.Command{fix.Here("grep -n 'command=' ~{user}/.ssh/authorized_keys   # on {node}'s console"), fix.Console("sudo sshd -T -C user={user} | grep -i forcecommand   # there")},
			wouldSee: "the forced command's output, and no training process on {node}",
		},
		"needs-pty": {
			summary:  "runs commands on a terminal only, and a launcher has none",
			got:      "{message}",
			fix:      []fix.Command{fix.Console(`sudo sshd -T -C user={user} | grep -i 'forcecommand\|permittty'   # on {node}'s console`), fix.Here("ssh {node} true   # fails the same way until that is gone")},
			wouldSee: "{node}: Pseudo-terminal will not be allocated because stdin is not a terminal.",
		},
		"shell-broken": {
			summary:  "its shell start-up files end or swallow the session before the command runs",
			got:      "{output}",
			fix:      []fix.Command{fix.Here("ssh {node} true; echo $?"), fix.Here(`grep -n 'exit\|exec\|read\|tmux\|screen' ~{user}/.bashrc ~{user}/.profile /etc/profile.d/*.sh   # on {node}'s console`)},
			wouldSee: "nothing: the command on {node} never starts, and the other nodes wait for it",
		},
	},
	"agent-start": union(inPods, atMeeting, map[string]failure{
		"not-in-job": {
			verdict: checks.Unknown,
			summary: "is no node of the Slurm job that preflight is in, and srun goes to no other",
			got:     "{message}",
			fix:     []fix.Command{viaSrunAnew},
		},
		"step-failed": {
			summary:  "srun starts nothing there",
			got:      "{message}",
			fix:      []fix.Command{trySrun, fix.Here("squeue --steps -j {slurm_job}; scontrol show node {host} | grep -E 'State|Reason'"), fix.Console("sudo systemctl restart slurmd   # on {node}'s console, where it is down")},
			wouldSee: "srun: error: Task launch for StepId=118.0 failed on node {host}: Communication connection failure",
		},
		"root-refused": {
			summary: "Open MPI's mpirun starts nothing for root unless it is told to, and so will the launch's",
			got:     "{message}",
			fix: []fix.Command{
				fix.Here("export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1   # on the launching machine; or launch as another user"),
				fix.Here("deepspeed --launcher_args=--allow-run-as-root …   # the same, for one launch"),
			},
			wouldSee: "mpirun has detected an attempt to run as root.",
		},
		"daemon-missing": {
			summary: "has not what mpirun starts there (orted, prted, hydra_pmi_proxy), or the PATH of its non-interactive ssh does not lead to it",
			got:     "{message}",
			fix: []fix.Command{
				fix.On("command -v orted prted hydra_pmi_proxy; echo $PATH $LD_LIBRARY_PATH"),
				fix.Here("deepspeed --launcher_args='--prefix DIRECTORY' …   # Open MPI, where it lies elsewhere there: the directory above its bin and lib"),
			},
			wouldSee: "bash: line 1: orted: command not found",
		},
		"daemon-mismatch": {
			summary:  "its Open MPI is of another release than the launching machine's, and the two do not talk",
			got:      "{message}",
			fix:      []fix.Command{fix.Here("mpirun --version"), fix.On("orted --version; command -v orted")},
			wouldSee: "tcp_peer_recv_connect_ack: received different version from [[…]]: 4.1.4 instead of 4.0.3",
		},
		"no-callback": {
			summary: "what mpirun starts there does not reach the launching machine, which it has to call back: a firewall there, or a name or address that leads elsewhere",
			got:     "{message}",
			fix: []fix.Command{
				fix.On("getent ahosts LAUNCHING-MACHINE   # the name that the launching machine calls itself by, hostname"),
				fix.Console("sudo iptables -S INPUT; sudo nft list ruleset   # on the launching machine: let the nodes in on its ephemeral ports"),
			},
			wouldSee: "A process or daemon was unable to complete a TCP connection to another process",
		},
		"mpirun-failed": {
			summary:  "mpirun starts nothing there",
			got:      "{message}",
			fix:      []fix.Command{tryMPIRun},
			wouldSee: "ORTE was unable to reliably start one or more daemons.",
		},
		"no-overlap": {
			verdict: checks.Unknown,
			summary: "srun is older than 20.11, which began to let a step run beside another (--overlap)",
			got:     "{message}",
			fix:     []fix.Command{viaSSH},
		},
		"no-pyxis": {
			summary:  "srun has no pyxis, which --container-image and its like are options of",
			got:      "{message}",
			fix:      []fix.Command{fix.Here("srun --help | grep container; grep -rs pyxis /etc/slurm/plugstack.conf /etc/slurm/plugstack.conf.d"), fix.Note("or enter what the ranks run in by --in")},
			wouldSee: "srun: unrecognized option '--container-image=…'",
		},
		"pyxis-failed": {
			summary:  "pyxis begins no container there",
			got:      "{message}",
			fix:      []fix.Command{trySrun, fix.Here("scontrol show node {host} | grep -E 'State|Reason'"), fix.Note("correct what --container-image and --container-mounts name, and see that {nodes} reach it")},
			wouldSee: "slurmstepd: error: pyxis: couldn't start container",
		},
		"job-over": {
			verdict: checks.Unknown,
			summary: "the Slurm job that preflight is in has ended",
			got:     "{message}",
			fix:     []fix.Command{viaSrunAnew},
		},
		"slurm-silent": {
			summary:  "Slurm's controller does not answer, so that no step of the job begins",
			got:      "{message}",
			fix:      []fix.Command{fix.Here("scontrol ping; systemctl status slurmctld   # the latter on the machine that scontrol names"), viaSSH},
			wouldSee: "srun: error: Unable to create step for job 118: Unable to contact slurm controller (connect failure)",
		},
		"slurm-distrusts": {
			summary:  "Slurm does not believe who asks: munged is not running, or the clocks differ by more than its five minutes",
			got:      "{message}",
			fix:      []fix.Command{fix.Here("munge -n | unmunge; date"), fix.On("systemctl status munge; date"), viaSSH},
			wouldSee: "srun: error: Unable to create step for job 118: Protocol authentication error",
		},
		"no-directory": {
			summary: "has no private directory to run a program from", noPlace: true,
			got: "{tried}",
			fix: []fix.Command{fix.On("ls -ld ~ ~/.cache /var/tmp /tmp /var/tmp/preflight-* /tmp/preflight-*; df -h ~ /var/tmp /tmp")},
		},
		"no-programs": {
			summary: "its PATH leads to no ls, mkdir or any other of the system's programs, which a start-up file of its shell must have set",
			got:     "{tried}",
			fix: []fix.Command{
				fix.On("echo $PATH; /bin/grep -ns PATH= ~/.bashrc ~/.bash_profile ~/.profile ~/.zshenv ~/.ssh/environment /etc/environment /etc/bash.bashrc /etc/zshenv"),
				fix.Note("in that file on {nodes} let the line add to PATH, as in PATH=/opt:$PATH"),
			},
			wouldSee: "bash: line 1: …: command not found, of whatever the ranks start by its name",
		},
		"disk-full": {
			summary:  "has no space left in any directory we may write",
			noPlace:  true,
			got:      "{tried}",
			fix:      []fix.Command{fix.On("df -h ~ /var/tmp /tmp; df -i ~ /var/tmp /tmp"), fix.On("du -xsh ~/.cache /tmp /var/tmp")},
			wouldSee: "OSError: [Errno 28] No space left on device",
		},
		"noexec": {
			summary:  "mounts every directory we may write noexec",
			noPlace:  true,
			got:      "{tried}",
			fix:      []fix.Command{fix.On("findmnt -T ~; findmnt -T /tmp; findmnt -T /var/tmp"), fix.On("sudo mount -o remount,exec /tmp")},
			wouldSee: "ImportError: … failed to map segment from shared object: Operation not permitted",
		},
		"squatted": {
			summary: "somebody else has made what bears the name of our directory, wherever we could run a program from",
			got:     "{tried}",
			fix: []fix.Command{
				fix.On(`ls -ld /var/tmp/preflight-$(id -u) /tmp/preflight-$(id -u) /dev/shm/preflight-$(id -u)   # whose they are`),
				fix.On(`sudo find /var/tmp /tmp /dev/shm -maxdepth 1 -name preflight-$(id -u) -not -uid $(id -u) -exec rm -r {} +`).Inside(),
			},
		},
		"no-unpacker": {
			summary: "has no gzip to unpack the program with",
			fix:     []fix.Command{fix.On("sudo apt-get install -y gzip   # dnf on Red Hat").Inside()},
		},
		"wrong-arch": {
			summary: "is a kind of machine for which this preflight carries no agent",
			got:     "{arch}",
			fix: []fix.Command{
				fix.Here("make cross   # where preflight was built: it then carries agents for amd64 and arm64"),
				fix.Here("make cross NOCGO=1 ARCHES={arch}   # for another architecture: such agents cannot see NVIDIA GPUs"),
			},
		},
		"wrong-os": {summary: "runs {os}, and preflight looks at Linux only", fix: []fix.Command{fix.Here("preflight -H {hostfile} --exclude {node}")}},
		"libc-too-old": {
			summary: "has no glibc, or one that is too old for preflight's agent",
			got:     "{message}",
			fix: []fix.Command{
				fix.Note("the agent needs glibc 2.3.2 or later on amd64, 2.17 or later on arm64"),
				fix.Here("preflight --in 'docker exec -i CONTAINER' …   # if the ranks run in containers that have glibc"),
				fix.Here("make cross NOCGO=1   # where preflight was built: its agents then need no glibc, and cannot see NVIDIA GPUs"),
			},
		},
		"agent-killed": {
			summary:  "our program was killed there by signal {signal}",
			fix:      []fix.Command{fix.On(`sudo dmesg -T | grep -i "killed process" | tail -n 5`), fix.On("ulimit -a; free -m")},
			wouldSee: "['python', '-u', …] exits with return code = -9",
		},
		"agent-exited": {
			summary: "our program ended there by itself",
			got:     "{message}",
			fix:     []fix.Command{fix.On("ulimit -a; df -h ~ /tmp; free -m"), remedy.LastWords},
		},
		"garbage": {
			summary: "answers with something that is not preflight's",
			got:     "{text}",
			fix:     []fix.Command{fix.Here("preflight clean -H {hostfile}"), fix.Here("ssh {node} true   # anything printed here comes from start-up files")},
		},
		"too-much": {
			summary: "sent more than a node can honestly have to say ({limit})",
			fix:     []fix.Command{fix.Here("preflight clean -H {hostfile}"), fix.Here("ssh {node} true   # anything printed here comes from start-up files")},
		},
		"truncated": {
			summary: "the answer ended in the middle",
			got:     "{message}",
			fix:     []fix.Command{fix.On("sudo dmesg -T | tail -n 20")},
		},
	}),
	enterID: insideFailures,
	"": {
		"given-terminal": givenTerminal,
		"frozen": {
			blames:  host,
			summary: "answered at first, then nothing until the deadline: the machine hangs, or something on the way lost the connection",
			got:     "{seen}",
			fix: []fix.Command{
				fix.Here("ssh -o ConnectTimeout=10 {node} uptime"),
				fix.Here("ssh {jump} ping -c 1 -M do -s 1472 {host}   # lost where -s 1000 passes: an MTU behind the jump host is too small"),
				remedy.LastWords,
			},
			wouldSee: "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(…) ran for 600000 milliseconds before timing out.",
		},
		"connection-lost": {
			summary:  "the connection broke",
			got:      "{message}",
			fix:      []fix.Command{fix.Here("ping -c 20 {host}   # loss?"), fix.On("sudo dmesg -T | tail -n 20")},
			wouldSee: "{node}: client_loop: send disconnect: Broken pipe",
		},
		"unexpected": {
			summary: "could not be reached, in a way preflight has no name for",
			got:     "{message}",
			fix:     []fix.Command{remedy.TryBySSH},
		},
	},
}
