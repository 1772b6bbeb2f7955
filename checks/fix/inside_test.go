// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"strings"
	"testing"
)

// toInside returns an audience whose ranks run in a container with the name of the node.
func toInside(nodes ...string) Audience {
	audience := to(nodes...)
	audience.Inside = func(node string) []string { return []string{"docker", "exec", "-i", "it's " + node} }
	return audience
}

// TestAddressedInside checks commands that follow the words that enter a container. Three shells
// read such a command: the local shell, the node's shell and the container's shell.
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
		{On("ls %s | wc", Path("/a")), toInside("w1"), `ssh -n w1 "docker exec -i 'it'\''s w1' sh -c 'ls /a | wc'"`},
		{On("date"), toInside("w1", "w2"), `ssh -n w1 "docker exec -i 'it'\''s w1' sh -c date"   # and so on each of the others, in what its ranks run in`},
		{On("date").Outside(), toInside("w1", "w2"), "pdsh -R ssh -w 'w[1-2]' date"},
		{On("sudo date"), toInside("w1"), "ssh -n w1 sudo date"},
		{On("sudo date"), root, "ssh -n w1 sudo date"},
		{On("sudo date").Inside(), root, `ssh -n w1 "docker exec -i 'it'\''s w1' sh -c date"`},
		{On("sudo date").Outside(), root, "ssh -n w1 sudo date"},
		{On("date"), srun, `srun --input=none --overlap --nodes=1 --ntasks=1 --nodelist=w1 docker exec -i 'it'\''s w1' sh -c date`},
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

// beyondSSH returns the ways to reach nodes that rsync does not support.
func beyondSSH(nodes ...string) map[string]Audience {
	ways := map[string]Audience{"container": to(nodes...), "srun": to(nodes...), "pods": to(nodes...), "container in a job": to(nodes...)}
	for way, audience := range ways {
		if strings.HasPrefix(way, "container") {
			audience.Inside = func(string) []string { return []string{"docker", "exec", "-i", "train"} }
		}
		if way == "srun" || way == "container in a job" {
			audience.Srun = []string{"--jobid=118"}
		}
		if way == "pods" {
			audience.Pods = []string{"--namespace=ml"}
		}
		ways[way] = audience
	}
	return ways
}

// TestCopied checks that a file arrives where the ranks run, whatever program enters that place.
func TestCopied(t *testing.T) {
	one, two := beyondSSH("me@w1"), beyondSSH("w1", "w2")
	port, mixed, each, unnamed, named := two["container"], two["container"], toInside("w1", "w2"), two["srun"], two["srun"]
	port.Port = 2222
	mixed.Inside = func(node string) []string { return map[string][]string{"w2": {"docker", "exec", "-i", "train"}}[node] }
	unnamed.Srun = []string{"--container-image=a.sqsh"}
	named.Srun = []string{"--container-image=a.sqsh", "--container-name=train"}
	const srun, unpack = "srun --overlap --jobid=118 ", "'tar -C / -xf -'"
	for _, c := range []struct {
		command Command
		to      Audience
		want    string
	}{
		{CopyTo("/a b/"), one["container"], `tar -C / -cf - './a b/' | ssh w1 "docker exec -i train sh -c ` + unpack + `"`},
		{CopyTo("/a"), port, `for host in w1 w2; do tar -C / -cf - ./a | ssh -p 2222 $host "docker exec -i train sh -c ` + unpack + `"; done`},
		{CopyTo("/a"), each, `tar -C / -cf - ./a | ssh w1 "docker exec -i 'it'\''s w1' sh -c ` + unpack + `"   # and so on each of the others, in what its ranks run in`},
		{CopyTo("/a"), mixed, "tar -C / -cf - ./a | ssh w1 tar -C / -xf -   # and so on each of the others, in what its ranks run in"},
		{CopyTo("/a"), two["srun"], "tar -C / -cf - ./a | " + srun + "--nodes=2 --ntasks=2 --nodelist='w[1-2]' sh -c " + unpack},
		{CopyTo("/a"), two["container in a job"], "tar -C / -cf - ./a | " + srun + "--nodes=2 --ntasks=2 --nodelist='w[1-2]' docker exec -i train sh -c " + unpack},
		{CopyTo("/a"), one["pods"], "tar -C / -cf - ./a | kubectl exec w1 --namespace=ml --stdin -- sh -c " + unpack},
		{CopyTo("/a"), two["pods"], "for host in w1 w2; do tar -C / -cf - ./a | kubectl exec $host --namespace=ml --stdin -- sh -c " + unpack + "; done"},
		{CopyFrom("w9", "/a"), two["container"], `ssh -n w9 "docker exec -i train sh -c 'tar -C / -cf - ./a'" | ssh w1 "docker exec -i train sh -c ` + unpack + `"`},
		{CopyFrom("w9", "/a"), two["srun"], "srun --input=none --overlap --jobid=118 --nodes=1 --ntasks=1 --nodelist=w9 sh -c 'tar -C / -cf - ./a' | " + srun + "--nodes=1 --ntasks=1 --nodelist=w1 sh -c " + unpack},
		{CopyFrom("w9", "/a"), one["pods"], "kubectl exec w9 --namespace=ml -- sh -c 'tar -C / -cf - ./a' | kubectl exec w1 --namespace=ml --stdin -- sh -c " + unpack},
		{CopyFrom("w2", "/a"), mixed, `ssh -n w2 "docker exec -i train sh -c 'tar -C / -cf - ./a'" | ssh w1 tar -C / -xf -`},
		{CopyTo("a"), one["pods"], "# by hand: a value in it is no text to paste into a shell"},
		{CopyTo("/a"), unnamed, "# have the image, or a directory of --container-mounts, hold it: every step of srun has a new container of --container-image"},
		{CopyTo("/a"), named, "tar -C / -cf - ./a | srun --overlap --container-image=a.sqsh --container-name=train --nodes=2 --ntasks=2 --nodelist='w[1-2]' sh -c " + unpack},
	} {
		if got := asPasted(c.command, c.to); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
