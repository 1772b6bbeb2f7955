// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"testing"
)

// failures is a testing.TB that records failures instead of failing the test.
type failures struct {
	testing.TB
	met []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.met = append(f.met, fmt.Sprintf(format, args...))
}

// TestTheSandboxTells checks that the sandbox notices each way in which data can run as code.
func TestTheSandboxTells(t *testing.T) {
	for _, line := range []string{
		"touch pwned", "true `touch pwned`", "sudo -n touch pwned", "env A=b touch pwned", "bash -c 'touch pwned'", "ssh w1 'touch pwned'",
		"ssh '-oProxyCommand=touch pwned' w1", "ssh -v -o 'ProxyCommand=touch pwned' w1 true", "ssh 'me@-oProxyCommand=touch pwned' true",
		"ssh w1 \"ssh w2 'touch pwned'\"", "pdsh -R ssh -w w1,w2 'touch pwned'", "pdsh -R ssh -w 'me@-oProxyCommand=touch pwned' true",
		"srun --overlap -n1 sh -c 'touch pwned'", "docker exec -i x sh -c 'touch pwned'", "for host in w1; do rsync -a /x $host:'$(touch pwned)'; done",
		"rsync -a '--rsh=touch pwned' /x w1:/x", "rsync -a -e 'ssh -oProxyCommand=touch${IFS}pwned' /x w1:/x", "sed -i '/x/;1e touch pwned' f", "sed -n -e 1p -e 'e touch pwned' f",
		"python3 -c 'import pwned'", "/opt/conda/bin/python -m pip install 'torch @ https://pwned'", "pip install ./pwned", "pip install torch --index-url https://pwned",
		"$EDITOR +pwned", "sudo sudoedit '+!touch pwned'", "deepspeed --exclude w1 x.py '$(touch pwned)'", "deepspeed x.py 'a $(touch pwned)'", "deepspeed '--master_addr=`touch pwned`' …",
		"echo 'A=$(touch pwned)' >> ~/.deepspeed_env", "cat <<EOF\n$(touch pwned)\nEOF",
	} {
		var lines Lines
		lines.Add("here", line)
		ran := &failures{TB: t}
		lines.Paste(ran)
		if len(ran.met) == 0 {
			t.Errorf("%s was not reported", line)
		}
	}
	var lines Lines
	lines.Add("here", "ssh -p 22 w1 \"echo 'pwned'\"", "rsync -as '/$(touch pwned)' w1:'/$(touch pwned)'", "pip install 'pwned<2'", "sed -n '1p;2p' 'pwned'", "deepspeed --exclude 'pwned;x' x.py '\"pwned\"'",
		"echo A=pwned >> ~/.deepspeed_env", "grep -n '$(touch pwned)' x   # pwned", "vi /pwned")
	if ran := (&failures{TB: t}); lines.Len() != 8 {
		t.Errorf("%d lines", lines.Len())
	} else if lines.Paste(ran); len(ran.met) > 0 {
		t.Errorf("%q", ran.met)
	}
}
