// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"preflight/testhosts/gpus"
)

// SetAdapters makes the node show a RoCE ConnectX-7 adapter for each of the given interfaces. The
// node must have these interfaces. The adapters are mlx5_0, mlx5_1 and so on. SetAdapters adds
// device nodes that open but do nothing, and the libraries that verbs need. The adapters carry no
// data. Programs that ask for an adapter's address get the address of the interface, as with real
// RoCE.
func (n *Node) SetAdapters(nics ...NIC) (Undo, error) {
	class, nodes := gpus.Tree{}, []string{}
	for i, nic := range nics {
		prefix, err := netip.ParsePrefix(nic.Prefix)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, fmt.Sprintf("uverbs%d", i))
		addAdapter(class, i, nic.Name, prefix.Addr())
	}
	var all undos
	for _, layer := range []driverLayer{
		{"/sys/class", class.Write},
		{"/dev", func(upper string) error { return makeVerbs(filepath.Join(upper, "infiniband"), nodes) }},
		{libraryDirectory(), gpus.Tree{"libibverbs.so.1": "", "libmlx5.so.1": ""}.Write},
	} {
		undo, err := n.layer(layer.dir, layer.change)
		if err != nil {
			return nil, errors.Join(err, all.undo())
		}
		all = append(all, undo)
	}
	return all.undo, nil
}

// addAdapter writes the files of an adapter below /sys/class, except those of its PCI device.
func addAdapter(class gpus.Tree, number int, nic string, address netip.Addr) {
	name := fmt.Sprintf("mlx5_%d", number)
	dir := "infiniband/" + name + "/"
	for file, text := range map[string]string{
		"hca_type": "MT4129", "fw_ver": "28.39.1002", "board_id": "MT_0000000838", "node_type": "1: CA",
		"node_guid":     fmt.Sprintf("9803:9b03:00%02x:%04x", number, address.As4()[3]),
		"ports/1/state": "4: ACTIVE", "ports/1/phys_state": "5: LinkUp", "ports/1/link_layer": "Ethernet",
		"ports/1/rate": "100 Gb/sec (4X EDR)", "ports/1/lid": "0x0", "ports/1/sm_lid": "0x0", "ports/1/pkeys/0": "0xffff",
		"ports/1/gids/0":            fmt.Sprintf("0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", address.As4()[0], address.As4()[1], address.As4()[2], address.As4()[3]),
		"ports/1/gid_attrs/types/0": "RoCE v2", "ports/1/gid_attrs/ndevs/0": nic,
	} {
		class[dir+file] = text + "\n"
	}
	class[dir+"device/driver"] = "-> ../../../../bus/pci/drivers/mlx5_core"
	class[fmt.Sprintf("infiniband_verbs/uverbs%d/ibdev", number)] = name + "\n"
}

// makeVerbs creates device nodes with the device number of /dev/null.
func makeVerbs(dir string, names []string) error {
	err := os.Mkdir(dir, 0o755)
	for _, name := range names {
		path := filepath.Join(dir, name)
		err = errors.Join(err, unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))), os.Chmod(path, 0o666))
	}
	return err
}
