# SPDX-License-Identifier: Apache-2.0
"""One rank of a gloo group, at the given address of the loopback network. It prints how
many other ranks have called it.

usage: gloo.py RANK RANKS PORT ADDRESS
"""

import datetime
import os
import socket
import sys

import torch.distributed as dist

rank, ranks, port, address = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
patience = datetime.timedelta(seconds=60)
store = dist.TCPStore("127.0.0.1", port, ranks, rank == 0, patience)
options = dist.ProcessGroupGloo._Options()
options._devices = [dist.ProcessGroupGloo.create_device(hostname=address)]
options._timeout = patience
group = dist.ProcessGroupGloo(store, rank, ranks, options)
group.barrier().wait()


def own_sockets():
    for fd in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink("/proc/self/fd/" + fd)
        except OSError:
            continue  # the descriptor of the listing itself
        if name.startswith("socket:["):
            yield name[len("socket:[") : -1]


# A called rank has the connection at its own address, a calling rank at the loopback address.
own = set(own_sockets())
place = "%08X" % int.from_bytes(socket.inet_aton(address), sys.byteorder)
called = 0
with open("/proc/self/net/tcp") as table:
    for line in list(table)[1:]:
        words = line.split()
        if words[9] in own and words[3] == "01" and words[1].startswith(place + ":"):
            called += 1
print(called, flush=True)
sys.stdin.read()  # wait until all ranks have counted
