#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what the tests of this directory need: one release of torch for each generation
# of the c10d store's protocol, the releases of DeepSpeed before and after changes of its
# launcher, accelerate, and the programs that start these. It needs about 6 GB, and as much
# again while it runs. It keeps what is already installed.
set -eu

home=${PREFLIGHT_ORACLE:-$HOME/.cache/preflight-oracle}

# Debian 12 has the oldest generation. Its interpreter also runs the others: the hosts
# have their own homes, so they could not see an interpreter in a home.
if ! /usr/bin/python3 -c 'import torch, ensurepip' 2>/dev/null; then
	echo "oracle: python3-torch and python3-venv from apt"
	apt-get install -y --no-install-recommends python3-torch python3-venv >/dev/null
fi

# What --launcher openmpi and mpich run. If both are installed, mpirun is Open MPI's.
if ! { command -v mpirun.openmpi && command -v mpirun.mpich; } >/dev/null; then
	echo "oracle: openmpi-bin and mpich from apt"
	apt-get install -y --no-install-recommends openmpi-bin mpich >/dev/null
fi

# installed PYTHON NAME VERSION succeeds if this version is installed.
installed() { "$1" -c "from importlib.metadata import version; assert version('$2') == '$3'" 2>/dev/null; }

# pip PYTHON ARG… installs without a cache, which would store every byte twice, and without
# compiling, because Python compiles the few modules that it imports.
pip() {
	python=$1
	shift
	"$python" -m pip --quiet --disable-pip-version-check --no-cache-dir install --no-compile "$@"
}

# release VENV TORCH DEEPSPEED [OTHER VERSION]… installs torch, DeepSpeed, whose launcher
# runs on hosts, and other packages. DeepSpeed compiles no ops, and pip may not fetch another
# torch to build it. The other packages start deepspeed or torchrun, use MPI or read a rank.
release() {
	venv=$home/$1
	if [ "$(readlink -f "$venv/bin/python")" != "$(readlink -f /usr/bin/python3)" ] || ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
		echo "oracle: torch $2 into $venv"
		/usr/bin/python3 -m venv --clear "$venv"
		pip "$venv/bin/python" "torch==$2"
	fi
	if ! installed "$venv/bin/python" deepspeed "$3"; then
		echo "oracle: deepspeed $3 into $venv"
		pip "$venv/bin/python" setuptools wheel ninja packaging py-cpuinfo psutil
		DS_BUILD_OPS=0 pip "$venv/bin/python" --no-build-isolation "deepspeed==$3"
	fi
	shift 3
	while [ $# != 0 ]; do
		if ! installed "$venv/bin/python" "$1" "$2"; then
			echo "oracle: $1 $2 into $venv"
			pip "$venv/bin/python" "$1==$2"
		fi
		shift 2
	done
}

# The imports of old releases of DeepSpeed, which need a torch and a pydantic of their time.
old=$home/deepspeed/old
imports() {
	"$old/bin/python" -c 'import torch, hjson, psutil, cpuinfo, tqdm; from pydantic import BaseSettings' 2>/dev/null && return
	echo "oracle: the imports of old releases of deepspeed into $old"
	/usr/bin/python3 -m venv --clear --system-site-packages "$old"
	pip "$old/bin/python" setuptools wheel hjson ninja packaging psutil py-cpuinfo tqdm 'pydantic<2'
}

# In parallel: one unpacks while the other downloads.
release v24 2.4.1 0.15.1 &
v24=$!
release v215 2.15.0 0.19.8 accelerate 1.15.0 mpi4py 4.1.2 py-spy 0.4.3 &
v215=$!
imports &
wait $!
wait $v24
wait $v215

for python in /usr/bin/python3 "$home/v24/bin/python" "$home/v215/bin/python"; do
	"$python" -W ignore -c 'import sys, torch; print("oracle: torch", torch.__version__, "in", sys.executable)'
done

# The releases of DeepSpeed whose runner is asked what it would start. Their sources are
# enough, with the packages of the newest release, or for old releases those above.
for release in 0.7.7 0.9.5 0.10.3 0.12.6 0.14.5 0.15.1 0.15.2 0.17.1 0.19.6 0.19.7 0.19.8; do
	case $release in
	0.7.* | 0.9.* | 0.10.* | 0.12.*) python=$old/bin/python ;;
	*) python=$home/v215/bin/python ;;
	esac
	if [ ! -f "$home/deepspeed/$release/deepspeed/launcher/runner.py" ]; then
		echo "oracle: the sources of deepspeed $release into $home/deepspeed/$release"
		mkdir -p "$home/deepspeed/$release"
		DS_BUILD_OPS=0 "$python" -m pip download --quiet --no-deps --no-binary :all: --no-build-isolation --dest "$home/deepspeed" "deepspeed==$release"
		tar -xzf "$home/deepspeed/deepspeed-$release.tar.gz" -C "$home/deepspeed/$release" --strip-components=1
		rm "$home/deepspeed/deepspeed-$release.tar.gz"
	fi
done

# Programs that start torchrun or accelerate. Their command lines need only the packages above.
if [ ! -d "$home/frameworks/ms_swift-4.6.0.dist-info" ]; then
	echo "oracle: LLaMA-Factory, axolotl and ms-swift into $home/frameworks"
	rm -rf "$home/frameworks"
	pip "$home/v215/bin/python" --no-deps --target "$home/frameworks" llamafactory==0.9.5 axolotl==0.19.0 ms-swift==4.6.0
fi

# NVIDIA's mock of its management library, at the commit from which
# checks/catalogue/testdata/models was recorded, built with its Makefile. If it cannot be
# built, its test reports this.
mock=$home/k8s-test-infra
mocked() {
	mkdir -p "$mock" &&
		{ [ -f "$mock/pkg/gpu/mocknvml/Makefile" ] ||
			git init --quiet "$mock" &&
			git -C "$mock" fetch --quiet --depth 1 https://github.com/NVIDIA/k8s-test-infra 3b2b865d91b1844baa9feeca2820d2fab65414c7 &&
			git -C "$mock" checkout --quiet FETCH_HEAD; } &&
		GOFLAGS=-mod=mod CGO_LDFLAGS='' make -s -C "$mock/pkg/gpu/mocknvml" NO_PADDING=1 >/dev/null 2>&1
}
if [ ! -e "$mock/pkg/gpu/mocknvml/libnvidia-ml.so.1" ]; then
	echo "oracle: NVIDIA's mock of libnvidia-ml into $mock"
	mocked || echo "oracle: NOT RUN: TestModels, because the mock could not be fetched or built"
fi
