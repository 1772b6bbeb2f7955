// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"context"
	"slices"

	"preflight/testhosts"
)

// planted is a fault before a launch, with the expected result. The training uses as little as
// possible, namely gloo on the CPU.
type planted struct {
	name      string
	nodes     int // number of nodes; 0 means two
	steps     []step
	files     map[string]string // files in the directory of the script, by name
	env       []string          // environment of the shell in which the launch is typed
	options   []string          // options of the launcher
	master    string            // the master address in the command, for launchers that take one; "" means the first node's address
	arguments []string          // arguments of the training
	limits    bool              // the fault is a limit of processes

	// trains lists the launchers with which the training works. dies lists those with which it
	// fails.
	trains, dies string
	// warns is a warning that preflight must give, a check with its nodes; "" for none.
	warns string
	// mayBeUnknown is the reason why preflight may end with 2 for this fault.
	mayBeUnknown string
	// differs is the reason why preflight's verdict differs from the launch's result. A row has it
	// only if preflight cannot know better; "" means that they must agree.
	differs string
}

// step is one part of causing a fault.
type step struct {
	where  string // a machine, "nodes" for all nodes, or "everywhere"
	change func(*testhosts.Node) (testhosts.Undo, error)
	script string // a script of sh, run after tools
}

func change(where string, changes ...func(*testhosts.Node) (testhosts.Undo, error)) []step {
	var steps []step
	for _, c := range changes {
		steps = append(steps, step{where: where, change: c})
	}
	return steps
}

func sh(where, text string) []step { return []step{{where: where, script: text}} }

// faults lists the faults to try.
var faults = slices.Concat(commonFaults, addressFaults, loginFaults, installationFaults, variableFaults, networkFaults, jobFaults, unlistedFaults, freshFaults, dockerFaults)

var commonFaults = []planted{
	{name: "none", trains: "pdsh openmpi mpich c10d static accelerate accelerate-pdsh"},

	// Of two ranks, the rank with the larger address opens the connection. gloo compares the
	// addresses byte by byte (gloo, gloo/transport/tcp/pair.cc). A single rank that cannot be
	// reached does no harm if its address is the largest. A rank whose name does not resolve to its
	// own address listens on its loopback interface, as if the name resolved to the loopback
	// address.
	{name: "own-name-loopback-first", steps: change("w1", own("127.0.1.1")), trains: "pdsh", dies: "c10d"},
	{name: "own-name-loopback-last", steps: change("w2", own("127.0.1.1")), trains: "c10d mpich"},
	{name: "own-name-loopback-middle", nodes: 3, steps: change("w2", own("127.0.0.1")), trains: "static"},
	{name: "own-name-loopback-two", nodes: 3, steps: append(change("w2", own("127.0.1.1")), change("w3", own("127.0.1.1"))...), dies: "static"},
	{name: "own-names-loopback", steps: change("nodes", own("127.0.1.1")), dies: "openmpi accelerate"},
	{name: "own-name-loopback-above", steps: append(inLargerNetwork, change("w2", own("127.0.1.1"))...), dies: "static"},
	{name: "own-name-foreign-first", steps: change("w1", own("10.77.250.1")), trains: "pdsh", dies: "c10d"},
	{name: "own-name-foreign-last", steps: change("w2", own("10.77.250.1")), trains: "c10d"},
	{name: "own-name-docker0-first", steps: change("w1", (*testhosts.Node).AddDocker0, own("172.17.0.1")), trains: "pdsh"},
	{name: "own-name-docker0-last", steps: change("w2", (*testhosts.Node).AddDocker0, own("172.17.0.1")), trains: "accelerate"},
	{name: "own-name-smaller", steps: change("w2", addBridge, own("10.0.3.1")), dies: "pdsh c10d"},
	{name: "own-name-unknown-first", steps: change("w1", forgetOwn), trains: "pdsh", dies: "c10d"},
	{name: "own-name-unknown-last", steps: change("w2", forgetOwn), trains: "static"},
	{name: "own-names-unknown", steps: change("nodes", forgetOwn), dies: "pdsh"},

	{name: "peer-unknown-first", steps: change("w1", forget("w2")), trains: "pdsh openmpi mpich c10d"},
	// torchrun's c10d passes on rank 0's own host name.
	{name: "peer-unknown-last", steps: change("w2", forget("w1")), trains: "pdsh static", dies: "c10d"},
	{name: "peer-elsewhere", steps: change("w2", elsewhere("w1")), trains: "pdsh accelerate-pdsh", dies: "c10d"},
	{name: "peers-unknown", steps: change("nodes", forget("w1"), forget("w2")), dies: "openmpi"},
	{name: "endpoint-by-name", master: "w1", trains: "c10d"},
	{name: "endpoint-unknown", master: "w9", steps: change("nodes", forget("w9")), dies: "c10d"},
	{name: "endpoint-of-last", master: "10.77.1.2", trains: "c10d"},
	{name: "master-of-last", master: "10.77.1.2", dies: "static accelerate"},
	{name: "master-of-last-option", options: []string{"--master_addr", "10.77.1.2"}, dies: "pdsh"},
	{name: "master-of-nobody", master: "10.77.250.1", dies: "static"},

	{name: "hostname-localhost-first", steps: sh("w1", "hostname localhost"), dies: "pdsh c10d"},
	{name: "hostname-localhost-last", steps: sh("w2", "hostname localhost"), dies: "pdsh"},
	{name: "own-name-ipv6-loopback", steps: sh("w2", "echo '::1 w2' >>/etc/hosts"), dies: "pdsh"},
	{name: "names-of-unused-ipv6", steps: sh("everywhere", "echo fd00::1 w1 >>/etc/hosts; echo fd00::2 w2 >>/etc/hosts"), trains: "pdsh c10d"},
	{name: "names-in-capitals", files: map[string]string{"hostfile": "W1 slots=1\nW2 slots=1\n"}, trains: "pdsh"},
	{name: "hostfile-of-addresses", files: map[string]string{"hostfile": "10.77.1.1 slots=1\n10.77.1.2 slots=1\n"}, trains: "openmpi"},
	{name: "hostfile-line-ends", files: map[string]string{"hostfile": "w1 slots=1\r\nw2 slots=1\r\n"}, trains: "pdsh", dies: "openmpi"},
	{name: "two-names-of-one", steps: twoNames, files: map[string]string{"hostfile": "w1 slots=1\nw1b slots=1\nw2 slots=1\n"}, trains: "pdsh"},
	{name: "slots-unlike", files: map[string]string{"hostfile": "w1 slots=2\nw2 slots=1\n"}, trains: "pdsh openmpi"},

	// Only NCCL needs /dev/shm.
	{name: "shm-small", steps: change("w2", shrinkSHM), trains: "c10d mpich"},
	{name: "shm-read-only", steps: change("w2", (*testhosts.Node).ReadOnlySHM), trains: "pdsh openmpi"},
	{name: "shm-full", steps: append(change("w2", shrinkSHM), sh("w2", "head -c 64M /dev/zero >/dev/shm/core.17")...), trains: "static"},
	{name: "nccl-interface", env: []string{"NCCL_SOCKET_IFNAME=nonsense"}, trains: "pdsh accelerate-pdsh"},
	{name: "nccl-interface-file", files: map[string]string{".deepspeed_env": "NCCL_SOCKET_IFNAME=nonsense\nNCCL_IB_HCA=mlx9\n"}, trains: "pdsh openmpi"},
	{name: "nccl-interface-of-one", steps: change("w2", configure("/etc/nccl.conf", "NCCL_SOCKET_IFNAME=ib0\n")), trains: "c10d pdsh"},
	{name: "nccl-net", steps: sh("w2", "echo export NCCL_NET=nonsense NCCL_IB_HCA=mlx9 >>/root/.bashrc"), trains: "pdsh"},

	{name: "gloo-interface-of-one", steps: sh("w2", "echo export GLOO_SOCKET_IFNAME=nonsense >>/root/.bashrc"), dies: "pdsh"},
	{name: "gloo-interface", files: map[string]string{".deepspeed_env": "GLOO_SOCKET_IFNAME=nonsense\n"}, dies: "pdsh openmpi mpich"},
	{name: "gloo-interface-loopback", files: map[string]string{".deepspeed_env": "GLOO_SOCKET_IFNAME=lo\n"}, dies: "pdsh"},
	// These faults use variables that DeepSpeed does not export.
	{name: "gloo-interface-here", env: []string{"GLOO_SOCKET_IFNAME=nonsense"}, trains: "pdsh"},
	{name: "gloo-interface-for-loopback-names", steps: change("nodes", own("127.0.1.1")), files: map[string]string{".deepspeed_env": "GLOO_SOCKET_IFNAME=eth0\n"}, trains: "pdsh"},
	{name: "gloo-interface-renamed", steps: change("w2", renameNIC), files: map[string]string{".deepspeed_env": "GLOO_SOCKET_IFNAME=eth0\n"}, dies: "pdsh"},

	{name: "interface-renamed", steps: change("w2", renameNIC), trains: "c10d pdsh", dies: "openmpi"},
	{name: "docker0-first", steps: change("w1", (*testhosts.Node).AddDocker0First), trains: "c10d", dies: "openmpi"},
	{name: "docker0-first-on-last", steps: change("w2", (*testhosts.Node).AddDocker0First), trains: "pdsh static"},
	{name: "docker0-everywhere", steps: change("nodes", (*testhosts.Node).AddDocker0), trains: "pdsh openmpi"},
	{name: "store-dropped", steps: change("w1", drop("29400,29500")), dies: "pdsh c10d static"},
	{name: "all-but-store-dropped", steps: change("w1", drop("1:21,23:29499,29501:65535")), dies: "static"},
	{name: "ephemeral-dropped-at-first", steps: change("w1", drop(testhosts.Ephemeral)), dies: "pdsh"},
	// This node connects to other nodes, and no other node connects to this node.
	{name: "ephemeral-dropped-at-last", steps: change("w2", drop(testhosts.Ephemeral)), trains: "static"},
	{name: "ephemeral-refused", steps: change("w1", func(n *testhosts.Node) (testhosts.Undo, error) { return n.Reject(testhosts.Ephemeral) }), dies: "c10d"},
	{name: "no-routes", steps: change("w2", (*testhosts.Node).LoseRoutes), dies: "pdsh static"},
	{name: "narrow-path", steps: change("w2", func(n *testhosts.Node) (testhosts.Undo, error) { return n.NarrowPath(1300) }), dies: "static"},
	{name: "mtu-smaller", steps: change("w2", func(n *testhosts.Node) (testhosts.Undo, error) { return n.SetMTU(1400) }), trains: "static"},
	{name: "mtu-larger", steps: change("w2", func(n *testhosts.Node) (testhosts.Undo, error) { return n.SetMTU(9000) }), trains: "static"},

	{name: "master-port-held", steps: change("w1", hold(29500)), trains: "c10d", dies: "pdsh static openmpi"},
	{name: "master-port-held-at-last", steps: change("w2", hold(29500)), trains: "pdsh"},
	{name: "endpoint-held", steps: change("w1", hold(29400)), trains: "static", dies: "c10d"},
	{name: "master-port-in-time-wait", steps: sh("w1", lingering), trains: "pdsh"},

	{name: "head-only", steps: change("nodes", (*testhosts.Node).AdmitHeadOnly), trains: "pdsh openmpi mpich"},
	{name: "no-key", steps: change("w2", (*testhosts.Node).RemoveAuthorizedKey), dies: "openmpi mpich"},
	{name: "no-key-needed", steps: change("w2", (*testhosts.Node).RemoveAuthorizedKey), trains: "c10d", mayBeUnknown: "nothing is seen of w2, and no login is needed there"},
	{name: "launching-machine-unknown", steps: sh("nodes", "echo hosts: files >/etc/nsswitch.conf; sed -i /-head/d /etc/hosts"), trains: "openmpi", dies: "mpich"},
	// The programs that mpirun starts on the nodes connect back to mpirun.
	{name: "head-firewalled", steps: change("head", drop("1024:65535")), trains: "pdsh", dies: "openmpi mpich"},
	{name: "sshd-stopped", steps: change("w2", (*testhosts.Node).StopSSHD), trains: "c10d", dies: "pdsh", mayBeUnknown: "nothing is seen of w2, and no login is needed there"},
	{name: "frozen", steps: change("w2", (*testhosts.Node).Freeze), dies: "pdsh"},
	{name: "host-key-changed", steps: change("w2", (*testhosts.Node).ChangeHostKey), dies: "pdsh"},
	{name: "shell-exits", steps: sh("w2", "echo exit >>/root/.bashrc"), dies: "pdsh openmpi"},
	{name: "shell-strict", steps: sh("w2", "echo set -eu >>/root/.bashrc"), trains: "mpich"},
	{name: "shell-other-python", steps: sh("w2", "mkdir /root/bin; ln -s /bin/false /root/bin/python; ln -s /bin/false /root/bin/python3; echo 'export PATH=/root/bin:$PATH' >>/root/.bashrc"), trains: "pdsh"},
	{name: "login-shell-tcsh", steps: sh("w2", "sed -i '/^root:/s,:[^:]*$,:/bin/tcsh,' /etc/passwd"), trains: "pdsh openmpi"}, // tcsh has no export command, so it prints an error and continues
	{name: "login-shell-fish", steps: sh("w2", "sed -i '/^root:/s,:[^:]*$,:/usr/bin/fish,' /etc/passwd"), trains: "pdsh mpich"},
	{name: "login-slow", steps: sh("w2", "echo sleep 12 >>/root/.bashrc"), trains: "pdsh"},
	{name: "pdsh-time-limit", env: []string{"PDSH_COMMAND_TIMEOUT=3"}, dies: "pdsh"},
	{name: "noise", steps: change("w2", func(n *testhosts.Node) (testhosts.Undo, error) { return n.NoisyShell("Welcome") }), trains: "pdsh mpich"},

	{name: "mpirun-of-mpich", steps: sh("everywhere", "ln -sf /usr/bin/mpirun.mpich /etc/alternatives/mpirun"), dies: "openmpi"},
	{name: "mpirun-of-openmpi", steps: sh("everywhere", "ln -sf /usr/bin/mpirun.openmpi /etc/alternatives/mpirun"), dies: "mpich"},
	{name: "no-mpirun", steps: sh("everywhere", "rm /etc/alternatives/mpirun"), dies: "openmpi mpich"},
	{name: "no-mpirun-needed", steps: sh("everywhere", "rm /etc/alternatives/mpirun"), trains: "pdsh"},
	{name: "no-orted", steps: change("w2", hide("/usr/bin/orted")), dies: "openmpi"},
	{name: "no-proxy-of-hydra", steps: change("w2", hide("/usr/bin/hydra_pmi_proxy")), dies: "mpich"},
	{name: "no-library-of-orted", steps: sh("w2", `alone "$libraries"; rm "$libraries"/libopen-rte.so*`), trains: "pdsh", dies: "openmpi"},
	{name: "no-mpi4py", steps: sh("w2", `alone "$site"; rm -r "$site"/mpi4py*`), trains: "pdsh", dies: "openmpi"},
	{name: "no-pdsh-needed", steps: change("everywhere", hide("/usr/bin/pdsh")), trains: "openmpi", dies: "pdsh accelerate-pdsh"},

	{name: "torch-shadowed", files: map[string]string{"torch.py": ""}, dies: "pdsh c10d"},
	{name: "torch-shadowed-on-one", steps: sh("w2", `alone "$dir"; touch "$dir/torch.py"`), dies: "static accelerate"},
	{name: "random-shadowed-on-one", steps: sh("w2", `alone "$dir"; touch "$dir/random.py"`), dies: "c10d mpich"},
	{name: "json-shadowed", files: map[string]string{"json.py": "pass\n"}, dies: "c10d"},
	{name: "datasets-beside", files: map[string]string{"datasets.py": ""}, trains: "c10d pdsh"},
	{name: "utils-beside", files: map[string]string{"utils.py": "", "model.py": "", "config.py": ""}, trains: "static pdsh"},
	{name: "numpy-shadowed-on-one", steps: sh("w2", `alone "$dir"; mkdir "$dir/numpy"; echo 'raise ImportError("not this")' >"$dir/numpy/__init__.py"`), dies: "c10d"},
	{name: "deepspeed-shadowed-on-one", steps: sh("w2", `alone "$dir"; mkdir "$dir/deepspeed"; touch "$dir/deepspeed/__init__.py"`), trains: "c10d", dies: "pdsh"},
	{name: "deepspeed-directory", steps: sh("w2", `alone "$dir"; mkdir "$dir/deepspeed"`), trains: "pdsh"},
	{name: "tqdm-shadowed", files: map[string]string{"tqdm.py": ""}, trains: "c10d", dies: "pdsh"},

	{name: "no-torchrun-on-one", steps: sh("w2", `alone "$bin"; rm "$bin/torchrun"`), trains: "pdsh", dies: "c10d"},
	{name: "no-torch-on-one", steps: sh("w2", `alone "$site"; rm -r "$site/torch"`), dies: "c10d mpich"},
	{name: "no-torch", steps: sh("everywhere", `alone "$site"; rm -r "$site/torch"`), dies: "c10d pdsh"},
	{name: "no-deepspeed-on-one", steps: sh("w2", `alone "$site"; rm -r "$site/deepspeed"`), trains: "c10d", dies: "openmpi accelerate-pdsh"},
	{name: "no-accelerate-on-one", steps: sh("w2", `alone "$site"; rm -r "$site/accelerate"`), trains: "pdsh", dies: "accelerate"},
	{name: "other-torch", steps: sh("w2", `mount --bind "$bin"/../../v24/lib/python*/site-packages "$site"`), trains: "pdsh"},
	// DeepSpeed needs these packages, but torchrun does not.
	{name: "no-psutil-on-one", steps: sh("w2", `alone "$site"; rm -r "$site"/psutil*`), trains: "c10d", dies: "pdsh"},
	{name: "no-numpy-on-one", steps: sh("w2", `alone "$site"; rm -r "$site"/numpy*`), trains: "c10d", dies: "pdsh"},
	// These faults remove third-party packages. torch itself imports only typing_extensions.
	{name: "no-typing-extensions-on-one", steps: sh("w2", `alone "$site"; rm -r "$site"/typing_extensions*`), dies: "c10d pdsh"},
	{name: "no-extras-of-torch-on-one", steps: sh("w2", `alone "$site"; rm -r "$site"/filelock* "$site"/jinja2* "$site"/networkx* "$site"/fsspec*`), trains: "c10d pdsh"},
	{name: "no-sympy-on-one", steps: sh("w2", `alone "$site"; rm -r "$site"/sympy* "$site"/mpmath*`), trains: "c10d pdsh"},
	{name: "no-pydantic-core-on-one", steps: sh("w2", `alone "$site"; rm -r "$site"/pydantic_core*`), trains: "c10d", dies: "pdsh"},
	{name: "no-yaml-on-one", steps: sh("w2", `alone "$site"; rm -r "$site"/yaml "$site"/_yaml "$site"/pyyaml*`), trains: "c10d", dies: "accelerate"},
	// These faults concern packages that the script imports.
	{name: "script-import-missing-on-one", files: importing("import yaml\n"), steps: sh("w2", `alone "$site"; rm -r "$site"/yaml "$site"/_yaml "$site"/pyyaml*`), dies: "c10d pdsh"},
	{name: "script-import-missing", files: importing("from unheard_of import this\n"), dies: "static openmpi"},
	{name: "script-import-tried", files: importing("try:\n    import yaml\nexcept ImportError:\n    yaml = None\n"), steps: sh("w2", `alone "$site"; rm -r "$site"/yaml "$site"/_yaml "$site"/pyyaml*`), trains: "c10d pdsh"},
	{name: "script-import-beside", files: beside(importing("import helpers, parts.one\n")), trains: "c10d pdsh"},
	{name: "script-import-beside-missing-on-one", files: beside(importing("import helpers\n")), steps: sh("w2", `alone "$dir"; rm "$dir/helpers.py"`), dies: "c10d"},
	{name: "script-import-elsewhere", files: importing("import sys\nsys.path.append('other')\nimport one\n"), steps: sh("nodes", `mkdir -p "$dir/other"; touch "$dir/other/one.py"`), trains: "c10d"},
	{name: "torch-without-library", steps: sh("w2", `alone "$site"; rm "$site/torch/lib/libtorch_cpu.so"`), dies: "c10d"},
	{name: "library-in-the-way", steps: sh("w2", "mkdir /root/lib; echo none >/root/lib/libstdc++.so.6; echo export LD_LIBRARY_PATH=/root/lib >>/root/.bashrc"), dies: "pdsh openmpi"},
	{name: "address-space", limits: true, steps: change("w2", limit("as", 2<<30)), dies: "pdsh"},
	{name: "python-home-here", env: []string{"PYTHONHOME=/nowhere"}, dies: "pdsh"},
	{name: "standalone-of-one", steps: sh("w2", "echo export PET_STANDALONE=1 >>/root/.bashrc"), trains: "pdsh"},
	{name: "log-settings-of-one", steps: sh("w2", "echo export TORCH_LOGS=+inductor_debug >>/root/.bashrc"), dies: "pdsh"},
	{name: "python-path-of-one", steps: sh("w2", "mkdir -p /root/old/torch; echo 'raise ImportError' >/root/old/torch/__init__.py; echo export PYTHONPATH=/root/old >>/root/.bashrc"), trains: "pdsh mpich"},

	{name: "script-broken", steps: sh("everywhere", `alone "$dir"; echo 'import (' >>"$dir/train.py"`), dies: "c10d pdsh"},
	{name: "script-broken-on-one", steps: sh("w2", `alone "$dir"; echo 'import (' >>"$dir/train.py"`), dies: "c10d pdsh"},
	{name: "script-of-other-comments", steps: sh("w2", `alone "$dir"; echo '# changed' >>"$dir/train.py"`), trains: "c10d pdsh"},
	{name: "no-workdir-on-one", steps: sh("w2", `cd /; umount "$dir"; rmdir "$dir"`), dies: "pdsh"},
	{name: "workdir-read-only", steps: sh("w2", `mount -o remount,ro,bind "$dir"`), trains: "pdsh openmpi c10d"},
	{name: "no-script-on-one", steps: sh("w2", `alone "$dir"; rm "$dir/train.py"`), dies: "c10d openmpi"},
	{name: "no-script", steps: sh("everywhere", `alone "$dir"; rm "$dir/train.py"`), dies: "pdsh"},
	{name: "no-python-on-one", steps: sh("w2", `alone "$bin"; rm "$bin/python"`), dies: "mpich"},

	// Without /tmp, Python uses the next directory for temporary files. Open MPI needs its own
	// directory below /tmp.
	{name: "tmp-read-only", steps: sh("w2", "mount -o remount,ro /tmp"), trains: "c10d pdsh mpich", dies: "openmpi"},
	{name: "tmp-full", steps: sh("w2", "mount -o remount,size=1m /tmp"), trains: "c10d pdsh", dies: "openmpi"},
	{name: "tmp-without-inodes", steps: sh("w2", `mount -o "remount,nr_inodes=$(($(df --output=iused /tmp | tail -n 1)))" /tmp`), trains: "static", dies: "openmpi"},
	{name: "tmp-noexec", steps: sh("w2", "mount -o remount,noexec /tmp"), trains: "c10d openmpi"},
	{name: "temporary-nowhere", steps: sh("w2", `mount -o remount,ro /tmp; mount -o remount,ro /var/tmp; mount -o remount,ro,bind "$dir"`), trains: "pdsh", dies: "c10d accelerate"},
	{name: "tmpdir-missing", steps: sh("w2", "echo export TMPDIR=/root/nowhere >>/root/.bashrc"), trains: "openmpi mpich"},

	{name: "home-read-only", steps: change("w2", (*testhosts.Node).ReadOnlyHome), trains: "pdsh c10d"},
	{name: "home-noexec", steps: change("w2", (*testhosts.Node).NoExecHome), trains: "openmpi"},
	{name: "home-full", steps: change("w2", (*testhosts.Node).FullHome), trains: "static"},
	{name: "open-files", limits: true, steps: change("w2", limit("nofile", 256)), trains: "pdsh"},
	{name: "locked-memory", limits: true, steps: change("w2", limit("memlock", 64<<10)), trains: "mpich"},
	{name: "processes", limits: true, steps: change("w2", limit("nproc", 20)), trains: "pdsh"}, // the limit does not count root's processes
	{name: "no-compiler", steps: sh("nodes", `alone /usr/bin; rm /usr/bin/c++ /usr/bin/g++ /usr/bin/gcc`), trains: "c10d pdsh"},

	// In these faults the nodes compile ops, as the configuration requires.
	{name: "compiled", steps: sharedExtensions, files: offload, arguments: compiles, trains: "pdsh"},
	{name: "compiled-no-compiler", steps: change("nodes", hide("/usr/bin/c++"), hide("/usr/bin/g++")), files: offload, arguments: compiles, dies: "pdsh"},
	{name: "compiled-home-read-only", steps: change("w2", (*testhosts.Node).ReadOnlyHome), files: offload, arguments: compiles, dies: "c10d"},
	{name: "compiled-home-full", steps: change("nodes", (*testhosts.Node).FullHome), files: offload, arguments: compiles, dies: "pdsh"},
	{name: "compiled-no-ninja", steps: append(sh("nodes", `alone "$bin"; rm "$bin/ninja"`), change("nodes", hide("/usr/bin/ninja"))...), files: offload, arguments: compiles, dies: "pdsh"},
	// The lock was left by a process that was killed while it compiled. torch 2.15 locks the file
	// itself, so a leftover file does no harm.
	{name: "compiled-locked", steps: append(slices.Clone(sharedExtensions), sh("w2", `mkdir -p "$dir/extensions/cpu_adam"; touch "$dir/extensions/cpu_adam/lock"`)...), files: offload, arguments: compiles, trains: "pdsh"},

	{name: "loopback-down-on-one", steps: sh("w2", "ip link set lo down"), trains: "pdsh c10d", dies: "openmpi"},
	{name: "null-read-only", steps: sh("w2", "touch /root/null; mount --bind /root/null /dev/null; mount -o remount,ro,bind /dev/null"), trains: "c10d", dies: "pdsh", mayBeUnknown: "nothing is seen of w2, and no login is needed there"},
	{name: "processes-hidden", steps: sh("w2", "mount -o remount,hidepid=2 /proc"), trains: "pdsh"},
	{name: "proxies", steps: sh("nodes", "echo export http_proxy=http://10.77.250.1:3128 https_proxy=http://10.77.250.1:3128 >>/root/.bashrc"), trains: "pdsh"},
	{name: "stale-ranks", steps: sh("w2", "echo export RANK=7 WORLD_SIZE=9 MASTER_ADDR=10.77.250.1 >>/root/.bashrc"), trains: "pdsh"},
	{name: "stale-master-here", env: []string{"MASTER_ADDR=10.77.250.1", "MASTER_PORT=1", "RANK=7"}, trains: "pdsh static"},
	{name: "env-of-a-blank", files: map[string]string{".deepspeed_env": " \n"}, dies: "pdsh openmpi"},
	{name: "threads", files: map[string]string{".deepspeed_env": "OMP_NUM_THREADS=512\n"}, trains: "pdsh"},
}

// own makes a machine resolve its own name to the given address.
func own(address string) func(*testhosts.Node) (testhosts.Undo, error) {
	return func(n *testhosts.Node) (testhosts.Undo, error) { return n.WrongHosts(n.Name, address) }
}

func elsewhere(name string) func(*testhosts.Node) (testhosts.Undo, error) {
	return func(n *testhosts.Node) (testhosts.Undo, error) { return n.WrongHosts(name, "10.77.250.1") }
}

func forgetOwn(n *testhosts.Node) (testhosts.Undo, error) { return forget(n.Name)(n) }

// forget makes a name unknown. It also prevents queries to name servers, because none would answer.
func forget(name string) func(*testhosts.Node) (testhosts.Undo, error) {
	return func(n *testhosts.Node) (testhosts.Undo, error) {
		if _, err := n.Run(context.Background(), "/bin/sh", "-c", "echo hosts: files >/etc/nsswitch.conf"); err != nil {
			return nil, err
		}
		return n.ForgetName(name)
	}
}

// addBridge adds a bridge for containers. The bridge's address is lower than all addresses of the
// nodes, and no other node can reach it.
func addBridge(n *testhosts.Node) (testhosts.Undo, error) {
	return n.AddNIC(testhosts.NIC{Name: "lxcbr0", Prefix: "10.0.3.1/24"})
}

func shrinkSHM(n *testhosts.Node) (testhosts.Undo, error) { return n.ShrinkSHM(64 << 20) }

func renameNIC(n *testhosts.Node) (testhosts.Undo, error) { return n.RenameNIC("enp4s0") }

func configure(path, text string) func(*testhosts.Node) (testhosts.Undo, error) {
	return func(n *testhosts.Node) (testhosts.Undo, error) { return n.Configure(path, text) }
}

func drop(ports string) func(*testhosts.Node) (testhosts.Undo, error) {
	return func(n *testhosts.Node) (testhosts.Undo, error) { return n.Drop(ports) }
}

func hold(port int) func(*testhosts.Node) (testhosts.Undo, error) {
	return func(n *testhosts.Node) (testhosts.Undo, error) { return n.HoldPort(port) }
}

func hide(path string) func(*testhosts.Node) (testhosts.Undo, error) {
	return func(n *testhosts.Node) (testhosts.Undo, error) { return n.Hide(path) }
}

func limit(resource string, value int64) func(*testhosts.Node) (testhosts.Undo, error) {
	return func(n *testhosts.Node) (testhosts.Undo, error) { return n.Limit(resource, value) }
}

// twoNames adds a second name for w1, with the same host key.
var twoNames = sh("everywhere", `
echo 10.77.1.1 w1b >>/etc/hosts
sed -n 's/^w1,10.77.1.1/w1b/p' /root/.ssh/known_hosts >/root/w1b
cat /root/w1b >>/root/.ssh/known_hosts`)

// inLargerNetwork makes every name resolve to an address in 192.168.0.0/16.
var inLargerNetwork = sh("everywhere", `
own=$(hostname -I | cut -d ' ' -f 1)
ip address add "192.168.${own#10.77.}/16" dev eth0
sed -i 's/^10[.]77[.]/192.168./' /etc/hosts`)

// lingering is a command that leaves a closed connection of port 29500 in TIME_WAIT.
const lingering = `python3 -c '
import socket
with socket.socket() as server:
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("", 29500))
    server.listen()
    with socket.create_connection(("127.0.0.1", 29500)) as client:
        accepted, _ = server.accept()
        accepted.close()
'`

// importing returns the training with additional lines at its start.
func importing(lines string) map[string]string {
	return map[string]string{"train.py": lines + string(training)}
}

// beside adds modules to the directory of the script, one of them in a directory without
// __init__.py.
func beside(files map[string]string) map[string]string {
	files["helpers.py"], files["parts/one.py"] = "", ""
	return files
}

// compiles holds the arguments of a training that needs an op that DeepSpeed compiles for this
// configuration.
var (
	compiles = []string{"--compile", "--deepspeed_config", "ds.json"}
	offload  = map[string]string{"ds.json": `{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}`}
	// sharedExtensions makes one node compile for all nodes.
	sharedExtensions = sh("nodes", `echo "export TORCH_EXTENSIONS_DIR=$dir/extensions" >>/root/.bashrc`)
)
