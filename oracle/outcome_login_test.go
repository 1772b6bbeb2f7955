// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

// loginFaults are faults of login shells, sshd and what stands between ssh and the command.
var loginFaults = []planted{
	// The script needs a variable that the file exports. tcsh and csh have no export command.
	{name: "exported-to-tcsh", nodes: 3, steps: loginShell("w3", "/bin/tcsh"), files: needsExport, dies: "pdsh"},
	{name: "exported-to-fish", steps: loginShell("w2", "/usr/bin/fish"), files: needsExport, trains: "pdsh"},
	{name: "exported-to-zsh", steps: loginShell("w2", "/usr/bin/zsh"), files: needsExport, trains: "pdsh"},
	{name: "exported-to-csh-here", steps: loginShell("w2", "/bin/csh"), env: []string{"PYTHONUNBUFFERED=1"}, trains: "pdsh"},
	{name: "exported-to-readonly", steps: sh("w2", "echo 'readonly TRAINING_STAGE=0' >>/root/.bashrc"), files: needsExport, dies: "pdsh"},
	{name: "exported-by-named-file", steps: loginShell("w2", "/bin/tcsh"), env: []string{"DS_ENV_FILE=launch.env"},
		files: map[string]string{"launch.env": needsExport[".deepspeed_env"], "expected": needsExport["expected"]}, dies: "pdsh"},
	{name: "login-shell-restricted", steps: loginShell("w2", "/bin/rbash"), dies: "pdsh"},
	{name: "login-shell-missing", steps: loginShell("w2", "/usr/bin/nosuchshell"), dies: "pdsh"},

	// A limit that ends every command of a login.
	{name: "forced-timeout", steps: sshd("w2", `ForceCommand timeout 8 sh -c "$SSH_ORIGINAL_COMMAND"`), arguments: longer, dies: "pdsh"},
	{name: "forced-timeout-of-a-day", steps: sshd("w2", `ForceCommand timeout -k 5 1d sh -c "$SSH_ORIGINAL_COMMAND"`), trains: "pdsh"},
	{name: "forced-command-passes-on", steps: sshd("w2", `ForceCommand exec sh -c "$SSH_ORIGINAL_COMMAND"`), trains: "pdsh"},
	{name: "key-with-timeout", steps: sh("w2", `sed -i 's/^/command="timeout 8 sh -c \\"$SSH_ORIGINAL_COMMAND\\"" /' /root/.ssh/authorized_keys`), arguments: longer, dies: "pdsh"},
	{name: "cpu-time", steps: sh("w2", "echo ulimit -t 2 >>/root/.bashrc"), dies: "pdsh"},
	{name: "cpu-time-by-pam", steps: pamLimit("w2", "cpu 1000"), trains: "pdsh"},
	{name: "address-space-tiny", steps: pamLimit("w2", "as 500000"), dies: "pdsh"},
	{name: "address-space-small", steps: pamLimit("w2", "as 2000000"), dies: "pdsh"},
	{name: "address-space-large", steps: pamLimit("w2", "as 64000000"), trains: "pdsh"},

	// What sshd and PAM do before the command.
	{name: "nologin", steps: append(pam("w2"), sh("w2", "echo maintenance >/etc/nologin")...), trains: "pdsh"}, // root may log in
	{name: "account-expired", steps: append(pam("w2"), sh("w2", `sed -i 's/^root:.*/root:*:19000:0:99999:7::1:/' /etc/shadow`)...), dies: "pdsh"},
	{name: "password-expired", steps: append(pam("w2"), sh("w2", `sed -i 's/^root:.*/root:*:0:0:99999:7:::/' /etc/shadow`)...), dies: "pdsh"},
	{name: "sessions-one", steps: sshd("w2", "MaxSessions 1"), trains: "pdsh"},
	{name: "users-allowed", steps: sshd("w2", "AllowUsers alice"), dies: "pdsh"},
	{name: "match-from-elsewhere", steps: sshd("w2", "Match Address 192.0.2.0/24\nForceCommand false"), trains: "pdsh"},
	{name: "set-by-sshd", steps: sshd("w2", "SetEnv GLOO_SOCKET_IFNAME=nonsense"), dies: "pdsh"},
	{name: "user-environment", steps: append(sshd("w2", "PermitUserEnvironment yes"), sh("w2", "echo GLOO_SOCKET_IFNAME=nonsense >/root/.ssh/environment")...), dies: "pdsh"},
	{name: "user-environment-unread", steps: sh("w2", "echo GLOO_SOCKET_IFNAME=nonsense >/root/.ssh/environment"), trains: "pdsh"},
	{name: "home-missing", steps: sh("w2", `sed -i '/^root:/s,/root:,/nowhere:,' /etc/passwd`), dies: "pdsh"}, // no authorized_keys
	{name: "home-writable", steps: sh("w2", "chmod 777 /root"), dies: "pdsh"},
	{name: "rc-prints", steps: sh("w2", "echo 'echo welcome' >/root/.ssh/rc"), trains: "pdsh"},
	{name: "rc-prints-first", steps: sh("w1", "echo 'echo welcome' >/root/.ssh/rc"), dies: "pdsh"},
	{name: "rc-hangs", steps: sh("w2", "echo 'sleep 1000' >/root/.ssh/rc"), dies: "pdsh"},
	{name: "profile-fails", steps: sh("w2", "echo 'read answer; exit 3' >/etc/profile.d/zz.sh"), trains: "pdsh"}, // only login shells read it
	{name: "silent-for-an-hour", steps: sshd("w2", "ChannelTimeout session:command=1h"), trains: "pdsh", warns: "ssh-shell w2"},
	{name: "sockets-shared", steps: sh("head", "mkdir -p /root/.ssh/sockets; printf 'Host *\\n\\tControlMaster auto\\n\\tControlPath ~/.ssh/sockets/%%C\\n\\tControlPersist 1m\\n' >/root/.ssh/config"), trains: "pdsh"},
	{name: "timeout-of-shell", steps: sh("w2", "echo 'export TMOUT=2' >>/root/.bashrc"), trains: "pdsh"},
}

// needsExport is a file of variables, with the variable that the training needs.
var needsExport = map[string]string{".deepspeed_env": "TRAINING_STAGE=2\nTRAINING_DATA=small\n", "expected": "TRAINING_STAGE=2\n"}

// longer holds the arguments of a training that lasts longer than the limits above.
var longer = []string{"--seconds", "12"}

func loginShell(where, path string) []step {
	return sh(where, "sed -i '/^root:/s,:[^:]*$,:"+path+",' /etc/passwd")
}

const restartSSHD = `
kill "$(cat /run/sshd/testhosts.pid)"
sleep 0.3
/usr/sbin/sshd -E /var/log/sshd.log
`

// sshd adds lines to the configuration of sshd.
func sshd(where, lines string) []step {
	return sh(where, "cat >>/etc/ssh/sshd_config <<'END'\n"+lines+"\nEND\n"+restartSSHD)
}

// pam makes sshd use PAM.
func pam(where string) []step {
	return sh(where, "sed -i 's/^UsePAM no/UsePAM yes/' /etc/ssh/sshd_config"+restartSSHD)
}

// pamLimit sets a limit that PAM gives to every login.
func pamLimit(where, limit string) []step {
	return append(sh(where, "echo 'root - "+limit+"' >>/etc/security/limits.conf"), pam(where)...)
}
