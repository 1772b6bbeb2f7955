#!/bin/sh
# Fetches the releases of torch that the tests of this folder ask: one of each
# generation of the c10d store's protocol. It needs about 6 GB, and about as much
# again while it runs. What is there already stays.
set -eu

home=${PREFLIGHT_ORACLE:-$HOME/.cache/preflight-oracle}

for release in v24=2.4.1 v215=2.15.0; do
	venv=$home/${release%=*}
	if ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
		echo "oracle: torch ${release#*=} into $venv"
		python3 -m venv --clear "$venv"
		"$venv/bin/pip" install --quiet "torch==${release#*=}"
	fi
done

# The oldest generation is what Debian 12 has.
if ! /usr/bin/python3 -c 'import torch' 2>/dev/null; then
	echo "oracle: python3-torch from apt"
	apt-get install -y --no-install-recommends python3-torch >/dev/null
fi

for python in /usr/bin/python3 "$home/v24/bin/python" "$home/v215/bin/python"; do
	"$python" -W ignore -c 'import sys, torch; print("oracle: torch", torch.__version__, "in", sys.executable)'
done
