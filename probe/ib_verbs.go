package probe

import (
	"os"
	"path/filepath"
	"syscall"

	"preflight/facts"
)

// verbs are the device nodes through which programs use RDMA adapters, and those that
// this session is refused: by a container's device cgroup, which no mode shows, or by
// the mode. Opening one and closing it again starts nothing in an adapter: the
// kernel makes a file of it, and a context only when it is asked for one (Linux 6.8,
// drivers/infiniband/core/uverbs_main.c, ib_uverbs_open).
func verbs(o options) (nodes []string, refused []facts.DeviceNode) {
	nodes = []string{}
	paths, _ := filepath.Glob(o.at("/dev/infiniband/uverbs*")) // fails on a bad pattern only
	for _, path := range paths {
		node := "/dev/infiniband/" + filepath.Base(path)
		nodes = append(nodes, node)
		file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
		if err != nil {
			refused = append(refused, facts.DeviceNode{Path: node, Problem: reason(err)})
			continue
		}
		file.Close()
	}
	return nodes, refused
}

// verbsOf are the device nodes by the adapters they belong to. A container may see
// all adapters of its machine, and have the nodes of a few.
func verbsOf(o options) map[string]string {
	nodes := map[string]string{}
	entries, _ := filepath.Glob(o.at("/sys/class/infiniband_verbs/uverbs*")) // fails on a bad pattern only
	for _, entry := range entries {
		if adapter := line(entry + "/ibdev"); adapter != "" {
			nodes[adapter] = "/dev/infiniband/" + filepath.Base(entry)
		}
	}
	return nodes
}
