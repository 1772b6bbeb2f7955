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

// Serve reads everything that [facts.NVML] can hold and writes it to out, one [Line] after another.
// It returns when it has read everything, or when the driver refuses. It may also hang or crash, as
// the package comment explains. It does not shut NVML down. The end of the process does that as
// well, and with a broken driver the shutdown would hang again.
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

// read asks the library, then each GPU, and then for the connections between the GPUs.
func (r *reader) read() {
	// go-nvml cannot search for a symbol before Init; findLibrary has already searched for this
	// one.
	r.announce("nvmlInit_v2")
	if ret := r.library.Init(); ret != nvml.SUCCESS {
		// The library's own version needs no driver. It is one of the two versions in a version
		// mismatch.
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
		if c.failure != c.seen.Failure || len(c.refused) > len(c.seen.Refused) { // a call about another GPU found this failure later
			c.write()
		}
	}
}

// cards asks the GPUs that are shown to this session, and counts the others.
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
	if ok { // 12040 stands for 12.4 (nvml.h, NVML_CUDA_DRIVER_VERSION_MAJOR and _MINOR)
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

// caller makes the calls about one GPU. If its card is nil, it makes the calls about the library.
// It keeps the first failure of the GPU, and the other calls that were refused.
type caller struct {
	*reader
	card    *int
	failure *facts.NVMLFailure
	refused []facts.NVMLFailure
}

// announce writes the next call, so that the reader knows which call did not return.
func (a *caller) announce(call string) { a.send(Line{Call: call, Card: a.card}) }

func (r *reader) announce(call string) { r.asker.announce(call) }

// symbol returns the first of a function's names that the library has, or "" if it has none of
// them. Calling a missing function ends the process, because go-nvml binds lazily.
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

// result makes a call under the first of its names that the library has. The newest name comes
// first, as in go-nvml. result returns false if the driver gives no value.
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
// is not a failure. A call for which this session lacks the rights is only recorded as refused. So
// its missing value does not count as healthy.
//
// Only a few of the other errors mean that the GPU cannot be used. A sensor may fail occasionally
// on a GPU that computes well (Azure/azhpc-diagnostics, issue 77).
func (a *caller) took(call string, ret nvml.Return) bool {
	switch ret {
	case nvml.SUCCESS:
		return true
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND,
		nvml.ERROR_INVALID_ARGUMENT,          // an old driver does not know the sensor, the counter or the field
		nvml.ERROR_ARGUMENT_VERSION_MISMATCH, // an old driver does not know this version of the struct
		nvml.ERROR_DEPRECATED, nvml.ERROR_NO_DATA, nvml.ERROR_VGPU_ECC_NOT_SUPPORTED:
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED, nvml.ERROR_INSUFFICIENT_POWER, nvml.ERROR_IRQ_ISSUE:
		a.fails(call, ret)
	default:
		a.refuses(call, ret)
	}
	return false
}

// refuses records a failed call. It records each call once, although some calls are made for each
// NVLink.
func (a *caller) refuses(call string, ret nvml.Return) {
	if refusal := *a.reader.failure(call, ret); !slices.Contains(a.refused, refusal) {
		a.refused = append(a.refused, refusal)
	}
}

// wasRefused reports whether a call failed for a reason other than missing support.
func (a *caller) wasRefused(call string) bool {
	return slices.ContainsFunc(a.refused, func(refusal facts.NVMLFailure) bool { return refusal.Call == call })
}

// fails records the first failure of the GPU or the library.
func (a *caller) fails(call string, ret nvml.Return) {
	if a.failure == nil {
		a.failure = a.reader.failure(call, ret)
	}
}

// lost reports whether the GPU fell off the bus. Such a GPU gives no more answers, and each further
// call would wait for it.
func (a *caller) lost() bool { return a.failure != nil && a.failure.Kind == facts.FailureLost }

func (r *reader) failure(call string, ret nvml.Return) *facts.NVMLFailure {
	kind, known := kinds[ret]
	if !known {
		kind = facts.FailureOther
	}
	return &facts.NVMLFailure{Kind: kind, Code: int(ret), Call: call, Text: r.words(ret)}
}

// words returns the library's message for a return code.
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

// elsewhere lists directories with the driver's libraries on machines whose loader does not know
// these directories. They are the directories of WSL 2, NixOS and the driver volume of Kubernetes'
// device plugin. The distributions' own directories are included in case ld.so.cache is stale.
var elsewhere = []string{
	"/usr/lib/wsl/lib", "/run/opengl-driver/lib", "/usr/local/nvidia/lib64",
	"/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
}

// findLibrary returns the name or the path with which to load NVML. It returns the name if the
// loader finds the library, otherwise a path. The error is the loader's own message.
//
// If a library without nvmlInit were used, the process would end as soon as go-nvml called that
// function. So findLibrary searches for the function first. The library stays loaded.
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
		err = there // more informative than the message that the loader did not find the library
	}
	return "", err
}

// load loads a library in the same way as go-nvml will, and checks that the library can be
// initialised.
func load(report lines, path string) error {
	report.send(Line{Call: "dlopen " + path}) // dlopen may hang too, if the library is on a mount that hangs
	library := dl.New(path, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := library.Open(); err != nil {
		return err
	}
	if library.Lookup("nvmlInit_v2") != nil && library.Lookup("nvmlInit") != nil {
		return errors.Join(fmt.Errorf("%s has no nvmlInit", path), library.Close())
	}
	return nil
}
