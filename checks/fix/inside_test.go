// SPDX-License-Identifier: Apache-2.0

package fix

import "testing"

// toInside is to nodes whose ranks run in a container of the node's name.
func toInside(nodes ...string) Audience {
	audience := to(nodes...)
	audience.Inside = func(node string) []string { return []string{"docker", "exec", "-i", "it's " + node} }
	return audience
}

// TestAddressedInside: a command for nodes is typed behind what enters what the ranks run in
// there, read by the shell here, the node's and the inside's.
func TestAddressedInside(t *testing.T) {
	srun, hostile, root := toInside("w1"), to("w1"), toInside("w1")
	srun.Srun = []string{}
	hostile.Inside = func(string) []string { return []string{"docker", "a\nb"} }
	root.IsRoot = func(string) bool { return true }
	for _, c := range []struct {
		command Command
		to      Audience
		want    string
	}{
		{On("ls %s | wc", Path("/a")), toInside("w1"), `ssh w1 "docker exec -i 'it'\''s w1' sh -c 'ls /a | wc'"`},
		{On("date"), toInside("w1", "w2"), `ssh w1 "docker exec -i 'it'\''s w1' sh -c date"   # and so on each of the others, in what its ranks run in`},
		{On("date").Outside(), toInside("w1", "w2"), "pdsh -R ssh -w 'w[1-2]' date"},
		{On("sudo date"), toInside("w1"), "ssh w1 sudo date"},
		{On("sudo date"), root, "ssh w1 sudo date"},
		{On("sudo date").Inside(), root, `ssh w1 "docker exec -i 'it'\''s w1' sh -c date"`},
		{On("sudo date").Outside(), root, "ssh w1 sudo date"},
		{On("date"), srun, `srun --overlap --nodes=1 --ntasks=1 --nodelist=w1 docker exec -i 'it'\''s w1' sh -c date`},
		{On("date"), hostile, "# by hand: what the ranks run in is no text to paste into a shell"},
	} {
		line, isCommand := c.command.Addressed(c.to)
		if !isCommand {
			line = "# " + line
		}
		if line != c.want {
			t.Errorf("got  %s\nwant %s", line, c.want)
		}
	}
}
