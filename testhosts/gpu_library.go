package testhosts

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

//go:embed nvml/*.c nvml/*.h
var nvmlSource embed.FS

// nvmlName is the library's file and its soname.
const nvmlName = "libnvidia-ml.so.1"

// ScenarioName is the file beside the library that BuildNVML writes the scenario to.
const ScenarioName = "nvml-stub.scenario"

// BuildNVML writes a stand-in for NVIDIA's management library into a directory,
// and beside it what it shall say, and returns the library's path. Whoever loads
// it has [ScenarioVariable] in the environment, with the path of that file. It
// takes a C compiler, and one second of it for each set of missing functions.
func BuildNVML(dir string, scenario GPUs) (library string, err error) {
	binary, err := compiledNVML(scenario.Without)
	if err != nil {
		return "", err
	}
	library = filepath.Join(dir, nvmlName)
	if err := os.WriteFile(library, binary, 0o755); err != nil {
		return "", err
	}
	return library, os.WriteFile(filepath.Join(dir, ScenarioName), scenario.scenarioFile(), 0o644)
}

// compiled has the libraries of this process by the functions that they lack.
var compiled struct {
	sync.Mutex
	libraries map[string][]byte
}

func compiledNVML(without []string) ([]byte, error) {
	compiled.Lock()
	defer compiled.Unlock()
	lacks := strings.Join(slices.Sorted(slices.Values(without)), " ")
	if binary, ok := compiled.libraries[lacks]; ok {
		return binary, nil
	}
	binary, err := compileNVML(without)
	if err != nil {
		return nil, fmt.Errorf("build the stand-in for NVML: %w", err)
	}
	if compiled.libraries == nil {
		compiled.libraries = map[string][]byte{}
	}
	compiled.libraries[lacks] = binary
	return binary, nil
}

// errNoCompiler is what there is no library without.
var errNoCompiler = errors.New("there is no C compiler, cc: install gcc and libc6-dev, as testhosts/apt.sh does")

func compileNVML(without []string) (binary []byte, err error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return nil, errNoCompiler
	}
	dir, err := os.MkdirTemp("", "nvml")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.CopyFS(dir, nvmlSource); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "exports"), exportsWithout(without), 0o600); err != nil {
		return nil, err
	}
	sources, err := fs.Glob(nvmlSource, "nvml/*.c")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(cc, append([]string{
		"-shared", "-fPIC", "-Wl,-soname," + nvmlName, "-Wl,--version-script,exports", "-o", nvmlName,
	}, sources...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(out))
	}
	return os.ReadFile(filepath.Join(dir, nvmlName))
}

// exportsWithout is a linker's version script that hides what an old library
// lacks: a name in full goes before a pattern.
func exportsWithout(functions []string) []byte {
	var script bytes.Buffer
	script.WriteString("{ global: nvml*; local: ")
	for _, function := range functions {
		script.WriteString(function + "; ")
	}
	script.WriteString("*; };\n")
	return script.Bytes()
}

// libraries are the driver's user half: NVML, and a libcuda with nothing in it.
func (g GPUs) libraries() (tree, error) {
	if g.NoLibrary {
		return nil, nil
	}
	libcuda := "libcuda.so." + g.Driver
	files := tree{"libcuda.so.1": linkTo + libcuda, libcuda: ""}
	if g.NoNVML {
		return files, nil
	}
	nvml, err := compiledNVML(g.Without)
	files["libnvidia-ml.so.1"] = linkTo + "libnvidia-ml.so." + g.Driver
	files["libnvidia-ml.so."+g.Driver] = string(nvml)
	return files, err
}
