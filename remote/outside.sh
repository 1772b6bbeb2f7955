# SPDX-License-Identifier: Apache-2.0
# Enters what the ranks run in on this node, and becomes our command, $1, in there. Runs
# after say.sh. How to enter is read and never parsed: a word a line, and an empty one
# behind the last. The shell reads these byte by byte, so that what follows is left to what
# it becomes.

inner=$1; set --;
while IFS= read -r word && [ -n "$word" ]; do set -- "$@" "$word"; done;
[ $# -gt 0 ] || exit 1;
say enters;
command -v "$1" >/dev/null || { say absent; exit 127; };
exec "$@" /bin/sh -c "$inner";
