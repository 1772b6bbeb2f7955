#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests preflight on this machine's NVIDIA GPU and prints a table: sh run.sh. It needs python3 with
# torch for the rows that start ranks, and neither a network nor sshd. It leaves the GPU's settings
# alone. As root, -settings also changes compute mode, power limit and clocks, and restores them.
# The table and all reports are in results/. It ends with 1 if a row is wrong.
cd "$(dirname "$0")" || exit
mkdir -p results
exec ./gpu.test -test.timeout 8m -agent "$PWD/agent" -rank "$PWD/rank.py" -results "$PWD/results" "$@"
