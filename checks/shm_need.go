package checks

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"preflight/launch"
)

// load is what decides how much a node's /dev/shm must hold.
type load struct {
	nccl  string // version
	ranks int
}

// need is the bytes /dev/shm must hold, those of NCCL among them, the block
// NCCL asks for at a time, and how all that comes about.
type need struct {
	bytes, nccl, block int64
	arithmetic         string
}

func (l load) need(v View) need {
	headroom := fmt.Sprintf("%s head-room for DataLoader workers", humanize.IBytes(uint64(v.Policy.SHMHeadroom)))
	if v.Launch.Accelerator == "cpu" {
		return need{bytes: v.Policy.SHMHeadroom, arithmetic: headroom + ", and nothing for NCCL: it is not used with accelerator cpu"}
	}
	use := launch.SHMNeed(l.nccl, l.ranks, len(v.Launch.Hosts), 1)
	arithmetic := use.Arithmetic + " + " + headroom
	if use.Segments > 0 {
		arithmetic += fmt.Sprintf("; %s more where its GPUs cannot reach each other directly", humanize.IBytes(uint64(use.Segments)))
	}
	return need{use.Bytes + v.Policy.SHMHeadroom, use.Bytes, use.Block, arithmetic}
}
