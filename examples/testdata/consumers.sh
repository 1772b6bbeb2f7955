#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the programs that the examples are for from PyPI into bin/consumers (310 MB), in the
# releases that the examples name. It keeps what is already there. Of NVRx it installs only the client
# and its imports, because the whole package needs torch and a newer glibc than Debian 12 has.
set -eu
cd "$(dirname "$0")/../.."
nvrx=0.7.0 python=$PWD/bin/consumers/bin/python
wanted="ansible-core==2.19.14 reframe-hpc==4.10.4 grpcio==1.85.3 protobuf==7.36.2 defusedxml==0.7.1 httpx==0.28.1 nvidia-resiliency-ext==$nvrx"
[ "$(cat bin/consumers/wanted 2>/dev/null)" != "$wanted" ] || exit 0

rm -rf bin/consumers
python3 -m venv bin/consumers
# shellcheck disable=SC2086 # a list of words
"$python" -m pip install -q --disable-pip-version-check ${wanted% *}
"$python" -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
	--platform "manylinux_2_39_$(uname -m)" -d bin/consumers/wheels "${wanted##* }"
"$python" -m zipfile -e bin/consumers/wheels/nvidia_resiliency_ext-$nvrx-*.whl bin/consumers/nvrx
echo "$wanted" >bin/consumers/wanted
