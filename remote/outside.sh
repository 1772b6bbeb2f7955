# SPDX-License-Identifier: Apache-2.0
# Enters the ranks' container on this node, and becomes our command, $1, inside. Runs after
# say.sh. The words that enter it are read and never parsed: one per line, then an empty line.
# The shell reads them byte by byte, so that the rest of the input is left to the command.

inner=$1; set --;
while IFS= read -r word && [ -n "$word" ]; do set -- "$@" "$word"; done;
[ $# -gt 0 ] || exit 1;
say enters;
command -v "$1" >/dev/null || { say absent; exit 127; };
exec "$@" /bin/sh -c "$inner";
