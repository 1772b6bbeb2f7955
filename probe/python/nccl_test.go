// SPDX-License-Identifier: Apache-2.0

package python

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

const wheelPath = "$ORIGIN/../../nvidia/cublas/lib:$ORIGIN/../../nvidia/nccl/lib:$ORIGIN"

// planted returns a machine with an NCCL in every possible place. The version of each is 2.1.x,
// where x is different in each place.
func planted(t *testing.T, torch *object) (root string, search ncclSearch) {
	t.Helper()
	root = t.TempDir()
	for path, version := range map[string]string{
		"preload/libnccl.so.2.1.1":          "2.1.1",
		"ldpath/libnccl.so.2":               "2.1.2",
		"site/nvidia/nccl/lib/libnccl.so.2": "2.1.3",
		"usr/local/lib/libnccl.so.2":        "2.1.4",
		"usr/lib64/libnccl.so.2":            "2.1.5",
		"opt/nccl/lib/libnccl.so.2":         "2.1.6",
	} {
		object{rodata: "\x00NCCL version " + version + "+cuda12.4\x00", code: "NCCL version 9.9.9+cuda9.9"}.write(t, filepath.Join(root, path))
	}
	probetest.LoaderCache(t, filepath.Join(root, "etc/ld.so.cache"), machine.LoaderFlags,
		[2]string{"libnccl.so.3", "/usr/local/lib/libnccl.so.3"},
		[2]string{"libnccl.so.2", "/usr/local/lib/libnccl.so.2"})
	search = ncclSearch{
		sysPath: []string{filepath.Join(root, "site")},
		preload: filepath.Join(root, "preload/libnccl.so.2.1.1") + " /lib/other.so",
		path:    filepath.Join(root, "absent") + ":" + filepath.Join(root, "ldpath"),
		workDir: root,
		at:      machine.Options{Root: root}.At,
	}
	if torch != nil {
		search.torchDir = filepath.Join(root, "site/torch")
		torch.write(t, filepath.Join(search.torchDir, "lib/libtorch_cuda.so"))
	}
	return root, search
}

func TestFindNCCLInLoaderOrder(t *testing.T) {
	needs := []string{"libc10.so", "libnccl.so.2"}
	tests := []struct {
		name  string
		torch *object
		want  string // version:from of each library, in order
	}{{
		"no torch", nil,
		"2.1.1:LD_PRELOAD 2.1.2:LD_LIBRARY_PATH 2.1.4:ld.so.cache 2.1.5:default 2.1.3:wheel",
	}, {
		"torch's wheel, whose DT_RPATH beats LD_LIBRARY_PATH",
		&object{needed: needs, rpath: wheelPath},
		"2.1.1:LD_PRELOAD 2.1.3:wheel 2.1.2:LD_LIBRARY_PATH 2.1.4:ld.so.cache 2.1.5:default",
	}, {
		"the same with a DT_RUNPATH, which does not",
		&object{needed: needs, runpath: wheelPath},
		"2.1.1:LD_PRELOAD 2.1.2:LD_LIBRARY_PATH 2.1.3:wheel 2.1.4:ld.so.cache 2.1.5:default",
	}, {
		"built here against another directory",
		&object{needed: needs, runpath: "${ORIGIN}/../../../opt/nccl/lib"},
		"2.1.1:LD_PRELOAD 2.1.2:LD_LIBRARY_PATH 2.1.6:torch 2.1.4:ld.so.cache 2.1.5:default 2.1.3:wheel",
	}, {
		"with both, of which DT_RUNPATH counts",
		&object{needed: needs, rpath: wheelPath, runpath: "$ORIGIN/../../../opt/nccl/lib"},
		"2.1.1:LD_PRELOAD 2.1.2:LD_LIBRARY_PATH 2.1.6:torch 2.1.4:ld.so.cache 2.1.5:default 2.1.3:wheel",
	}, {
		"linked in",
		&object{needed: []string{"libc10.so"}, rodata: "NCCL version 2.20.3a1+cuda12.1\x00"},
		"2.1.1:LD_PRELOAD 2.20.3:torch 2.1.2:LD_LIBRARY_PATH 2.1.4:ld.so.cache 2.1.5:default 2.1.3:wheel",
	}, {
		"built without NCCL",
		&object{needed: []string{"libc10.so"}, rodata: "nothing"},
		"2.1.1:LD_PRELOAD 2.1.2:LD_LIBRARY_PATH 2.1.4:ld.so.cache 2.1.5:default 2.1.3:wheel",
	}}
	for _, tt := range tests {
		_, search := planted(t, tt.torch)
		var got []string
		for _, library := range findNCCL(t.Context(), search) {
			got = append(got, library.Version+":"+library.From)
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}

func TestFindNCCLNamesEachFileOnce(t *testing.T) {
	root, search := planted(t, nil)
	search.preload = ""
	// An empty entry in LD_LIBRARY_PATH means the working directory.
	search.workDir = filepath.Join(root, "ldpath")
	search.path = ":" + filepath.Join(root, "usr/local/lib") + ";" + filepath.Join(root, "link")
	if err := os.Symlink("ldpath", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, library := range findNCCL(t.Context(), search) {
		got = append(got, library.Version+":"+library.From)
	}
	want := []string{"2.1.2:LD_LIBRARY_PATH", "2.1.4:LD_LIBRARY_PATH", "2.1.5:default", "2.1.3:wheel"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReadNCCLVersionElsewhereInTheFile(t *testing.T) {
	odd := object{rodata: "nothing", code: "NCCL version 2.22.3+cuda12.6"}
	for name, want := range map[string]string{"libnccl.so.2": "2.22.3", "libtorch_cuda.so": ""} {
		path := filepath.Join(t.TempDir(), name)
		odd.write(t, path)
		if got, _, _ := readNCCLVersion(t.Context(), machine.Candidate{Path: path}); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestFindRCCL checks that a torch for ROCm requests RCCL and ignores any NCCL. RCCL has one name
// in the wheels of pytorch.org, and another name if it was built on ROCm itself.
func TestFindRCCL(t *testing.T) {
	for name, where := range map[string]string{"librccl.so": "site/torch/lib", "librccl.so.1": "usr/lib64"} {
		root, search := planted(t, nil)
		search.preload, search.torchDir = "", filepath.Join(root, "site/torch")
		torch := object{needed: []string{"libamdhip64.so", name}, runpath: "$ORIGIN"}
		torch.write(t, filepath.Join(search.torchDir, "lib/libtorch_hip.so"))
		object{rodata: "\x00RCCL version 2.20.5+hip6.2 HEAD:d380693+\x00"}.write(t, filepath.Join(root, where, name))
		var got []string
		for _, library := range findNCCL(t.Context(), search) {
			got = append(got, strings.Join([]string{library.From, library.Version, library.CUDA, library.HIP}, " "))
		}
		want := []string{map[string]string{"librccl.so": "torch", "librccl.so.1": "default"}[name] + " 2.20.5  6.2"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestReadLoaderCache(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ld.so.cache")
	probetest.LoaderCache(t, file, machine.LoaderFlags^0x0300, [2]string{"libnccl.so.2", "/usr/lib32/libnccl.so.2"})
	if got := machine.ReadLoaderCache(file, "libnccl.so.2"); got != nil {
		t.Errorf("another architecture's library is taken: %v", got)
	}
	probetest.LoaderCache(t, file, machine.LoaderFlags, [2]string{"libnccl.so.2", "/a"}, [2]string{"libnccl.so.2", "/b"})
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/a", "/b"}, machine.ReadLoaderCache(file, "libnccl.so.2")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// A damaged cache must not be trusted and must not cause a crash.
	for n := range whole {
		if err := os.WriteFile(file, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		for _, path := range machine.ReadLoaderCache(file, "libnccl.so.2") {
			if !strings.HasPrefix("/a", path) && !strings.HasPrefix("/b", path) {
				t.Errorf("the first %d bytes give %q", n, path)
			}
		}
	}
}

func TestReadLoaderCacheOfThisMachine(t *testing.T) {
	if got := machine.ReadLoaderCache("/etc/ld.so.cache", "libc.so.6"); len(got) != 1 || !machine.Exists(got[0]) {
		t.Errorf("libc.so.6 is at %v, want one path that exists", got)
	}
}

func TestScanNCCLVersion(t *testing.T) {
	const text = "NCCL version 2.21.5+cuda12.4"
	const firstPiece = 256<<10 + 128 // size of the first read in bytes
	for _, at := range []int{0, 1, firstPiece - 28, firstPiece - 10, firstPiece - 1, firstPiece, firstPiece + 256<<10 - 10} {
		data := append(bytes.Repeat([]byte{'x'}, at), text+"\x00trailing"...)
		version, cuda, _ := scanNCCLVersion(t.Context(), iotest.HalfReader(bytes.NewReader(data)))
		if version != "2.21.5" || cuda != "12.4" {
			t.Errorf("at byte %d: %q, %q", at, version, cuda)
		}
	}
	for name, data := range map[string]string{
		"format string": "NCCL version %d.%d.%d+cuda%d.%d",
		"no CUDA":       "NCCL version 2.21.5",
		"short":         "NCCL",
		"empty":         "",
	} {
		if version, cuda, hip := scanNCCLVersion(t.Context(), strings.NewReader(data)); version != "" || cuda != "" || hip != "" {
			t.Errorf("%s: %q, %q, %q, want nothing", name, version, cuda, hip)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if version, _, _ := scanNCCLVersion(ctx, strings.NewReader(text)); version != "" {
		t.Error("the scan goes on after its context ended")
	}
}
