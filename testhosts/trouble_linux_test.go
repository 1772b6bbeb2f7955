// SPDX-License-Identifier: Apache-2.0

package testhosts_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"preflight/testhosts"
)

// TestTroubles causes every fault on w2. It checks on the launching machine what a launch would
// see, with the fault and again after Undo.
func TestTroubles(t *testing.T) { testhosts.InParts(t, sharing(3), troubles) }

func troubles(t *testing.T, c *testhosts.Cluster, mine func(row int) bool) {
	w1, w2 := c.Nodes[0], c.Nodes[1]
	const login = "ssh -o BatchMode=yes -o ConnectTimeout=5 w2 echo in 2>&1"
	// A server that does not answer gives no error, so bash prints the result of the TCP
	// connection.
	const connect = "timeout 2.5 bash -c '</dev/tcp/w2/22' 2>&1 && echo open; [ $? = 124 ] && echo silence"
	inNode := func(command string) string { return "ssh -o BatchMode=yes w2 '" + command + "' 2>&1" }
	tests := map[string]struct {
		plant         func() (testhosts.Undo, error)
		look          string
		trouble, fine string // part of the output with the fault, and part of the output without it
	}{
		"drop":              {func() (testhosts.Undo, error) { return w2.Drop() }, connect, "silence", "open"},
		"drop a port":       {func() (testhosts.Undo, error) { return w2.Drop("23", "1024:65535") }, "timeout 2 bash -c '</dev/tcp/w2/2000' 2>/dev/null; echo $?", "124", "1\n"},
		"reject":            {func() (testhosts.Undo, error) { return w2.Reject("22") }, connect, "Connection refused", "open"},
		"unroute":           {func() (testhosts.Undo, error) { return w2.Unroute() }, connect, "No route to host", "open"},
		"drop from w1":      {func() (testhosts.Undo, error) { return w2.DropFrom(w1) }, "ssh w1 ssh -o ConnectTimeout=3 w2 echo in 2>&1; ssh w2 ssh w1 echo out", "timed out\r\nout", "in\nout"},
		"ignored ARP":       {w2.IgnoreARP, "ssh w1 'timeout 1 bash -c \"</dev/tcp/w2/22\"; ip neigh show to 10.77.1.2' 2>&1", "INCOMPLETE", "PERMANENT"},
		"mtu":               {func() (testhosts.Undo, error) { return w2.SetMTU(1400) }, inNode("cat /sys/class/net/eth0/mtu"), "1400", "1500"},
		"narrow path":       {func() (testhosts.Undo, error) { return w2.NarrowPath(1300) }, "python3 -c 'import socket; s=socket.create_connection((\"w2\",22)); print(s.recv(9)); s.settimeout(3); s.sendall(b\"SSH-2.0-x\\r\\n\"+b\"A\"*9000); n=0\nwhile n<500:\n  got=len(s.recv(9999)); n+=got\n  if not got: break\nprint(\"crossed\")' 2>&1", "timed out", "crossed"},
		"other nic name":    {func() (testhosts.Undo, error) { return w2.RenameNIC("enp4s0") }, inNode("ls /sys/class/net"), "enp4s0", "eth0"},
		"docker0":           {w2.AddDocker0, inNode("hostname -I"), "10.77.1.2 172.17.0.1", "10.77.1.2 \n"},
		"small shm":         {func() (testhosts.Undo, error) { return w2.ShrinkSHM(64 << 20) }, inNode("df --output=size -BM /dev/shm | tail -1 | tr -d \" \" | sed s/^64M/small/"), "small", "M\n"},
		"read-only shm":     {w2.ReadOnlySHM, inNode("touch /dev/shm/x && rm /dev/shm/x && echo wrote"), "Read-only", "wrote"},
		"read-only home":    {w2.ReadOnlyHome, inNode("touch x && rm x && echo wrote"), "Read-only", "wrote"},
		"noexec home":       {w2.NoExecHome, inNode("cp /bin/true x; chmod +x x; ./x && echo ran; rm x"), "Permission denied", "ran"},
		"full home":         {w2.FullHome, inNode("echo text >x && echo wrote; rm x"), "No space left", "wrote"},
		"noisy shell":       {func() (testhosts.Undo, error) { return w2.NoisyShell("Don't panic") }, login, "Don't panic\nin", "in\n"},
		"no authorized key": {w2.RemoveAuthorizedKey, login, "Permission denied (publickey)", "in\n"},
		"no login shell":    {w2.NoLoginShell, login, "not available", "in\n"},
		"locked account":    {w2.LockAccount, login, "Permission denied (publickey)", "in\n"},
		"loopback name":     {w2.LoopbackHostname, inNode("getent hosts w2"), "127.0.1.1", "10.77.1.2 "},
		"wrong hosts":       {func() (testhosts.Undo, error) { return w2.WrongHosts("w1", "10.77.9.9") }, inNode("getent hosts w1"), "10.77.9.9", "10.77.1.1 "},
		"nccl.conf":         {func() (testhosts.Undo, error) { return w2.Configure("/etc/nccl.conf", "NCCL_DEBUG=INFO\n") }, inNode("cat /etc/nccl.conf"), "NCCL_DEBUG=INFO", "No such file"},
		"leftover segment":  {func() (testhosts.Undo, error) { return w2.LeftoverSegment("nccl-AbCdEf", 4096, 48*time.Hour) }, inNode("find /dev/shm -name nccl-\\* -mtime +0 -size 4k; echo looked"), "nccl-AbCdEf", "looked\n"},
		"other package":     {func() (testhosts.Undo, error) { return w2.OtherPackage("preflightdemo", "4.25.0") }, inNode("/usr/bin/python3 -c \"import importlib.metadata as m; print(m.version(\\\"preflightdemo\\\"))\""), "4.25.0", "No package metadata"},
		"freeze":            {func() (testhosts.Undo, error) { return w2.Freeze() }, connect + "; timeout 3 bash -c 'read line </dev/tcp/w2/22; echo $line' || echo frozen", "open\nfrozen", "open\nSSH-2.0-OpenSSH"},
		"kill":              {func() (testhosts.Undo, error) { return w2.Kill() }, connect, "Connection refused", "open"},
		"other host key":    {func() (testhosts.Undo, error) { return w2.ChangeHostKey() }, login, "HOST IDENTIFICATION HAS CHANGED", "in\n"},
		"memlock":           {func() (testhosts.Undo, error) { return w2.Limit("memlock", 65536) }, inNode("[ $(ulimit -S -l) = 64 ] && echo low || echo plenty"), "low", "plenty"},
		"held port":         {func() (testhosts.Undo, error) { return w2.HoldPort(29500) }, inNode("ss -Hltnp sport = :29500; echo looked"), "python3", "looked\n"},
		"hidden directory":  {func() (testhosts.Undo, error) { return w2.Hide(testhosts.JobDirectory) }, inNode("ls job/train.py hostfile"), "cannot access 'job/train.py'", "job/train.py\n"},
		"hidden file":       {func() (testhosts.Undo, error) { return w2.Hide("/usr/bin/python3") }, inNode("/usr/bin/python3 -V; /usr/bin/perl -e \"print qq(beside)\""), "No such file", "Python 3"},
		"other script": {func() (testhosts.Undo, error) {
			return w2.ChangeFile(testhosts.JobDirectory+"/train.py", func(text string) string { return text + "# other\n" })
		}, "ssh w2 cat job/train.py | diff ~/job/train.py - && echo same", "> # other", "same"},
		"few GPUs":      {func() (testhosts.Undo, error) { return w2.SetGPUs(4) }, inNode("ls /dev | grep -c ^nvidia[0-9]; df --output=fstype /dev/shm /dev/pts | tail -n 2; : >/dev/null"), "4\ntmpfs\ndevpts\n", "0\ntmpfs\ndevpts\n"},
		"foreign pdsh":  {c.Head.ForeignPDSH, "pdsh -R ssh -w w1 echo in 2>&1", "Owner not root, current uid, or pdsh executable owner", "w1: in\n"},
		"deepspeed_env": {func() (testhosts.Undo, error) { return c.Head.Configure("/root/.deepspeed_env", "# X\n") }, "cat ~/.deepspeed_env 2>&1", "# X", "No such file"},
	}
	for i, name := range slices.Sorted(maps.Keys(tests)) {
		if !mine(i) {
			continue
		}
		test := tests[name]
		t.Run(name, func(t *testing.T) {
			undo, err := test.plant()
			if err != nil {
				t.Fatal(err)
			}
			planted := onHead(t, c, test.look)
			if err := undo(); err != nil {
				t.Error(err)
			}
			healed := onHead(t, c, test.look)
			if !strings.Contains(planted, test.trouble) {
				t.Errorf("planted: %s\nprinted %q, want %q", test.look, planted, test.trouble)
			}
			if !strings.Contains(healed, test.fine) || strings.Contains(healed, test.trouble) {
				t.Errorf("healed: %s\nprinted %q, want %q", test.look, healed, test.fine)
			}
		})
	}
}

func TestHoldPortSaysWhyNot(t *testing.T) {
	c := raise(t, 1)
	if _, err := c.Nodes[0].HoldPort(22); err == nil || !strings.Contains(err.Error(), "Address already in use") {
		t.Errorf("holding sshd's port: got %v", err)
	}
}

func TestRunReportsNodeAndWords(t *testing.T) {
	c := raise(t, 1)
	_, err := c.Nodes[0].Run(context.Background(), "ls", "/nowhere")
	if err == nil || !strings.Contains(err.Error(), "w1: ls /nowhere: exit status 2: ls: cannot access") {
		t.Errorf("got %v", err)
	}
	if _, err = c.Nodes[0].Run(context.Background(), "no-such-command"); err == nil {
		t.Error("a missing command ran")
	}
}

func TestPut(t *testing.T) {
	c := raise(t, 2)
	if err := c.Put("/root/job/ds.json", []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	look := "for host in $(hostname) w1 w2; do ssh $host cat job/ds.json; done 2>&1"
	if got := onHead(t, c, look); got != "{}\n{}\n{}\n" {
		t.Errorf("the machines have %q", got)
	}
	for _, path := range []string{"/usr/local/x", "/root/../usr/local/x", "/root"} {
		if err := c.Put(path, nil, 0o644); err == nil {
			t.Errorf("%s was written, on this machine", path)
		}
	}
}

func TestHideWhatIsNotThere(t *testing.T) {
	c := raise(t, 1)
	if _, err := c.Nodes[0].Hide("/nowhere/at/all"); err == nil || !strings.Contains(err.Error(), "w1: /nowhere/at/all does not exist") {
		t.Errorf("got %v", err)
	}
}
