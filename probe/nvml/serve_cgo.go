// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package nvml

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"preflight/facts"
)

// Serve reads everything that [facts.NVML] can hold and writes it to out, one [Line] each. It
// returns when everything was read or the driver refused; it may also hang or crash: see the
// package. It does not shut NVML down: the end of the process does that as well, and a broken
// driver would hang in it once more.
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

// read asks the library, then each GPU, then what is between them.
func (r *reader) read() {
	// go-nvml cannot look up a symbol before Init; findLibrary has done so.
	r.announce("nvmlInit_v2")
	if ret := r.library.Init(); ret != nvml.SUCCESS {
		// The library's own version needs no driver, and is one half of a version mismatch.
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
		if c.failure != c.seen.Failure || len(c.refused) > len(c.seen.Refused) { // a call about a neighbour found it later
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

// system reads what the driver reports about itself.
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

// reader asks one library.
type reader struct {
	lines
	library nvml.Interface
	asker   *caller // for calls about the library itself
	has     map[string]bool
}

func newReader(library nvml.Interface, report lines) *reader {
	r := &reader{lines: report, library: library, has: map[string]bool{}}
	r.asker = &caller{reader: r}
	return r
}

// caller makes the calls about one GPU, or with a nil card about the library. It keeps the GPU's
// first failure, and the other calls that were refused.
type caller struct {
	*reader
	card    *int
	failure *facts.NVMLFailure
	refused []facts.NVMLFailure
}

// announce writes the next call, so that the reader knows which one did not return.
func (a *caller) announce(call string) { a.send(Line{Call: call, Card: a.card}) }

func (r *reader) announce(call string) { r.asker.announce(call) }

// symbol returns the first of a function's names that the library has, "" if it has none. Calling a
// missing one ends the process, because go-nvml binds lazily.
func (r *reader) symbol(names ...string) string {
	for _, name := range names {
		has, known := r.has[name]
		if !known {
			has = r.library.Extensions().LookupSymbol(name) == nil
			r.has[name] = has
		}
		if has {
			return name
		}
	}
	return ""
}

// result makes a call under one of its names, newest first as in go-nvml; it returns false if the
// driver gives no value.
func result[T any](a *caller, call func() (T, nvml.Return), names ...string) (value T, ok bool) {
	name := a.symbol(names...)
	if name == "" || a.lost() {
		return value, false
	}
	a.announce(name)
	value, ret := call()
	return value, a.took(name, ret)
}

// took reports whether a call succeeded. A call that an old driver or another GPU does not support
// is no failure. One for which we lack the rights is only recorded as refused, so that its value
// does not count as fine. Of the other errors only a few mean that the GPU cannot be used: a sensor
// may fail occasionally on a GPU that computes well (Azure/azhpc-diagnostics, issue 77).
func (a *caller) took(call string, ret nvml.Return) bool {
	switch ret {
	case nvml.SUCCESS:
		return true
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND,
		nvml.ERROR_INVALID_ARGUMENT,          // an old driver does not know the sensor, counter or field
		nvml.ERROR_ARGUMENT_VERSION_MISMATCH, // or the struct
		nvml.ERROR_DEPRECATED, nvml.ERROR_NO_DATA, nvml.ERROR_VGPU_ECC_NOT_SUPPORTED:
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED, nvml.ERROR_INSUFFICIENT_POWER, nvml.ERROR_IRQ_ISSUE:
		a.fails(call, ret)
	default:
		a.refuses(call, ret)
	}
	return false
}

// refuses records a failed call once; some calls are made for each NVLink.
func (a *caller) refuses(call string, ret nvml.Return) {
	if refusal := *a.reader.failure(call, ret); !slices.Contains(a.refused, refusal) {
		a.refused = append(a.refused, refusal)
	}
}

// wasRefused reports whether a call failed for another reason than not being supported.
func (a *caller) wasRefused(call string) bool {
	return slices.ContainsFunc(a.refused, func(refusal facts.NVMLFailure) bool { return refusal.Call == call })
}

// fails records the first failure.
func (a *caller) fails(call string, ret nvml.Return) {
	if a.failure == nil {
		a.failure = a.reader.failure(call, ret)
	}
}

// lost reports whether the GPU fell off the bus: it answers nothing any more, and each further call
// would wait for it.
func (a *caller) lost() bool { return a.failure != nil && a.failure.Kind == facts.FailureLost }

func (r *reader) failure(call string, ret nvml.Return) *facts.NVMLFailure {
	kind, known := kinds[ret]
	if !known {
		kind = facts.FailureOther
	}
	return &facts.NVMLFailure{Kind: kind, Code: int(ret), Call: call, Text: r.words(ret)}
}

// words returns the library's message for a code.
func (r *reader) words(ret nvml.Return) string {
	if r.symbol("nvmlErrorString") == "" {
		return fmt.Sprintf("error %d", ret)
	}
	return r.library.ErrorString(ret)
}

var kinds = map[nvml.Return]string{
	nvml.ERROR_NO_PERMISSION:           facts.FailureNoPermission,
	nvml.ERROR_NOT_FOUND:               facts.FailureNotFound,
	nvml.ERROR_DRIVER_NOT_LOADED:       facts.FailureNoDriver,
	nvml.ERROR_GPU_IS_LOST:             facts.FailureLost,
	nvml.ERROR_RESET_REQUIRED:          facts.FailureReset,
	nvml.ERROR_LIB_RM_VERSION_MISMATCH: facts.FailureMismatch,
	nvml.ERROR_UNKNOWN:                 facts.FailureUnknown,
}

const libraryName = "libnvidia-ml.so.1"

// elsewhere are directories with the driver's libraries on machines whose loader does not know
// them. They are those of WSL 2, NixOS and the driver volume of Kubernetes' device plugin, and the
// distributions' own, in case ld.so.cache is stale.
var elsewhere = []string{
	"/usr/lib/wsl/lib", "/run/opengl-driver/lib", "/usr/local/nvidia/lib64",
	"/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
}

// findLibrary returns what to load NVML with: its name if the loader finds it, otherwise a path.
// The error is the loader's own message.
//
// A library without nvmlInit would end the process as soon as go-nvml called it, so the function is
// looked up here. The library stays loaded.
func findLibrary(report lines) (string, error) {
	err := load(report, libraryName)
	if err == nil {
		return libraryName, nil
	}
	for _, dir := range elsewhere {
		path := filepath.Join(dir, libraryName)
		if _, missing := os.Stat(path); missing != nil {
			continue
		}
		there := load(report, path)
		if there == nil {
			return path, nil
		}
		err = there // more informative than that the loader did not find it
	}
	return "", err
}

// load loads a library as go-nvml will, and checks that it can be initialised.
func load(report lines, path string) error {
	report.send(Line{Call: "dlopen " + path}) // this may hang too, on a hung mount
	library := dl.New(path, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := library.Open(); err != nil {
		return err
	}
	if library.Lookup("nvmlInit_v2") != nil && library.Lookup("nvmlInit") != nil {
		return errors.Join(fmt.Errorf("%s has no nvmlInit", path), library.Close())
	}
	return nil
}
