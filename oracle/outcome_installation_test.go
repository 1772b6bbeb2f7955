// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

// installationFaults are faults of installations that are incomplete, hidden or cannot compile.
var installationFaults = []planted{
	{name: "torch-library-short", nodes: 3, steps: sh("w3", `alone "$site"; truncate -s 100M "$site/torch/lib/libtorch_cpu.so"`), dies: "pdsh c10d"},
	{name: "torch-library-empty", steps: sh("w2", `alone "$site"; : >"$site/torch/lib/libc10.so"`), dies: "c10d"},
	{name: "torch-library-link", steps: sh("w1", `alone "$site"; ln -sf /nowhere/libshm.so "$site/torch/lib/libshm.so"`), dies: "pdsh"},
	{name: "torch-module-empty", steps: sh("w2", `alone "$site"; : >"$site/torch/distributed/distributed_c10d.py"`), dies: "c10d"},
	{name: "torch-partly-deleted", steps: sh("w2", `alone "$site"; rm -r "$site"/torch/nn "$site"/torch/optim`), dies: "pdsh"},
	{name: "torch-program-missing", steps: sh("w2", `alone "$site"; rm "$site"/torch/bin/*`), dies: "c10d pdsh"},
	{name: "torch-changed-by-hand", steps: sh("nodes", `alone "$site"; echo '# changed' >>"$site/torch/__init__.py"`), trains: "pdsh"},
	{name: "torch-metadata-of-another", steps: sh("w2", `alone "$site"; mv "$site"/torch-2*.dist-info "$site/torch-2.4.0.dist-info"`), trains: "c10d"},
	{name: "torch-metadata-twice", steps: sh("w2", `alone "$site"; cp -r "$site"/torch-2*.dist-info "$site/torch-2.4.0.dist-info"; cp -r "$site"/torch/utils "$site/~orch"`), trains: "pdsh"},
	{name: "nvidia-library-missing", steps: sh("w2", `alone "$site"; rm "$(find "$site/nvidia" -name 'libcublas.so*' -print -quit)"`), dies: "c10d"},
	{name: "nvidia-library-short", steps: sh("w2", `alone "$site"; truncate -s 1M "$(find "$site/nvidia" -name 'libcusparse.so*' -print -quit)"`), dies: "pdsh"},
	{name: "deepspeed-module-empty", steps: sh("w2", `alone "$site"; : >"$site/deepspeed/runtime/engine.py"`), trains: "c10d", dies: "pdsh"},
	{name: "deepspeed-without-runtime", steps: sh("w2", `alone "$site"; rm -r "$site/deepspeed/runtime"`), trains: "c10d", dies: "pdsh"},
	{name: "pydantic-core-empty", steps: sh("w2", `alone "$site"; : >"$(find "$site/pydantic_core" -name '*.so')"`), trains: "c10d", dies: "pdsh"},

	{name: "library-of-another-release", steps: sh("w2", `mkdir /root/lib; echo 'int nothing;' | gcc -shared -x c - -o /root/lib/libstdc++.so.6 -Wl,-soname,libstdc++.so.6; echo export LD_LIBRARY_PATH=/root/lib >>/root/.bashrc`), dies: "pdsh"},

	{name: "torch-compile", files: compiling, trains: "pdsh"},
	{name: "torch-compile-no-compiler", nodes: 3, files: compiling, steps: sh("w2", `alone /usr/bin; rm /usr/bin/c++* /usr/bin/g++* /usr/bin/gcc* /usr/bin/cc`), dies: "pdsh c10d"},
	{name: "torch-compile-no-headers", files: compiling, steps: sh("w2", `alone /usr/include; rm -r /usr/include/python3*`), dies: "c10d"},
	{name: "torch-compile-no-compiler-needed", files: importing("import torch\nif len(__file__) < 3:\n    torch.compile(print)\n"), steps: change("w2", hide("/usr/bin/g++")), trains: "c10d"},
	{name: "torch-compile-beside", files: map[string]string{"train.py": "import double\n" + string(training), "double.py": doubling}, steps: change("w2", hide("/usr/bin/g++")), dies: "c10d"},
}

// doubling is code that torch.compile compiles with a C++ compiler on the CPU.
const doubling = "import torch\n\n\n@torch.compile\ndef doubled(x):\n    return torch.sin(x) * 2\n\n\ndoubled(torch.ones(64))\n"

var compiling = importing(doubling)
