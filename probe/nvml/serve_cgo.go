// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package nvml

import (
	"fmt"
	"io"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"preflight/facts"
)

// Serve asks all that [facts.NVML] has room for and writes it to out, a [Line]
// each. It comes back when all was asked or the driver refused, and may do
// neither: see the package. It does not shut NVML down, which the end of the
// process does as well and a sick driver would hang in once more.
func Serve(out io.Writer) {
	report := lines{out}
	path, err := findLibrary(report)
	if err != nil {
		report.send(Line{Unloaded: err.Error()})
	} else {
		newReader(nvml.New(nvml.WithLibraryPath(path)), report).read()
	}
	report.send(Line{Done: true})
}

// read asks the library, then each GPU, then what lies between them.
func (r *reader) read() {
	// go-nvml cannot look a symbol up before Init; findLibrary has done so.
	r.announce("nvmlInit_v2")
	if ret := r.library.Init(); ret != nvml.SUCCESS {
		// The library's own version needs no driver, and is one half of a mismatch.
		r.send(Line{System: &System{Library: r.libraryVersion()}})
		r.send(Line{Failure: r.failure("nvmlInit_v2", ret)})
		return
	}
	r.send(Line{System: r.system()})

	r.announce("nvmlDeviceGetCount_v2")
	count, ret := r.library.DeviceGetCount()
	if ret != nvml.SUCCESS {
		r.send(Line{Failure: r.failure("nvmlDeviceGetCount_v2", ret)})
		return
	}
	if count == 0 {
		r.send(Line{Failure: &facts.NVMLFailure{Kind: facts.FailureNotFound, Call: "nvmlDeviceGetCount_v2", Text: "the driver is loaded and has no GPU"}})
		return
	}
	cards := r.cards(count)
	if len(cards) == 0 {
		r.send(Line{Failure: r.failure("nvmlDeviceGetHandleByIndex_v2", nvml.ERROR_NO_PERMISSION)})
		return
	}
	for _, c := range cards {
		c.recognise(cards)
	}
	r.send(Line{Topology: topology(cards)})
	r.send(Line{Peers: peers(cards)})
	for _, c := range cards {
		if c.failure != c.seen.Failure || len(c.refused) > len(c.seen.Refused) { // only a neighbour's question found it
			c.write()
		}
	}
}

// cards asks the GPUs that are shown to us, and counts the others.
func (r *reader) cards(count int) (cards []*card) {
	hidden := 0
	for index := range count {
		if c := r.card(index); c != nil {
			cards = append(cards, c)
			continue
		}
		hidden++
		r.send(Line{Hidden: hidden})
	}
	return cards
}

// system asks what the driver says of itself.
func (r *reader) system() *System {
	seen := &System{Library: r.libraryVersion()}
	seen.Driver, _ = result(r.asker, r.library.SystemGetDriverVersion, "nvmlSystemGetDriverVersion")
	version, ok := result(r.asker, r.library.SystemGetCudaDriverVersion_v2, "nvmlSystemGetCudaDriverVersion_v2")
	if !ok {
		version, ok = result(r.asker, r.library.SystemGetCudaDriverVersion, "nvmlSystemGetCudaDriverVersion")
	}
	if ok { // 12040 is 12.4 (nvml.h, NVML_CUDA_DRIVER_VERSION_MAJOR and _MINOR)
		seen.CUDA = fmt.Sprintf("%d.%d", version/1000, version%1000/10)
	}
	return seen
}

func (r *reader) libraryVersion() string {
	version, _ := result(r.asker, r.library.SystemGetNVMLVersion, "nvmlSystemGetNVMLVersion")
	return version
}
