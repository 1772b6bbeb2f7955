#!/bin/sh
# Fetches the releases of torch that the tests of this folder ask: one of each
# generation of the c10d store's protocol. It needs about 6 GB, and about as much
# again while it runs. What is there already stays.
set -eu

home=${PREFLIGHT_ORACLE:-$HOME/.cache/preflight-oracle}

# The oldest generation is what Debian 12 has. Its interpreter runs the others
# too: one below a home would not be there on the hosts, which have homes of
# their own.
if ! /usr/bin/python3 -c 'import torch, ensurepip' 2>/dev/null; then
	echo "oracle: python3-torch and python3-venv from apt"
	apt-get install -y --no-install-recommends python3-torch python3-venv >/dev/null
fi

for release in v24=2.4.1 v215=2.15.0; do
	venv=$home/${release%=*}
	if [ "$(readlink -f "$venv/bin/python")" != "$(readlink -f /usr/bin/python3)" ] || ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
		echo "oracle: torch ${release#*=} into $venv"
		/usr/bin/python3 -m venv --clear "$venv"
		"$venv/bin/python" -m pip install --quiet "torch==${release#*=}"
	fi
done

for python in /usr/bin/python3 "$home/v24/bin/python" "$home/v215/bin/python"; do
	"$python" -W ignore -c 'import sys, torch; print("oracle: torch", torch.__version__, "in", sys.executable)'
done
