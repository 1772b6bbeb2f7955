//go:build linux && cgo

package nvml

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/NVIDIA/go-nvml/pkg/dl"
)

const libraryName = "libnvidia-ml.so.1"

// elsewhere are directories that hold the driver's libraries on machines whose
// loader was not told: WSL 2, NixOS, the driver volume of Kubernetes' device
// plugin, and the distributions' own where ld.so.cache is stale.
var elsewhere = []string{
	"/usr/lib/wsl/lib", "/run/opengl-driver/lib", "/usr/local/nvidia/lib64",
	"/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
}

// findLibrary is what to load NVML by: its name, where the loader finds it by
// that, else a path. The error has the loader's own words.
//
// A library without nvmlInit would end the process as soon as go-nvml called it,
// hence the look-up here. The library stays loaded.
func findLibrary(say lines) (string, error) {
	err := load(say, libraryName)
	if err == nil {
		return libraryName, nil
	}
	for _, dir := range elsewhere {
		path := filepath.Join(dir, libraryName)
		if _, missing := os.Stat(path); missing != nil {
			continue
		}
		there := load(say, path)
		if there == nil {
			return path, nil
		}
		err = there // says more than that the loader does not know of it
	}
	return "", err
}

// load loads a library as go-nvml will, and sees that it can be initialised.
func load(say lines, path string) error {
	say.say(Line{Call: "dlopen " + path}) // on a hung mount, this hangs as well
	library := dl.New(path, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := library.Open(); err != nil {
		return err
	}
	if library.Lookup("nvmlInit_v2") != nil && library.Lookup("nvmlInit") != nil {
		return errors.Join(fmt.Errorf("%s has no nvmlInit", path), library.Close())
	}
	return nil
}
