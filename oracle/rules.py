# SPDX-License-Identifier: Apache-2.0
"""Applies torchrun's own rules to every line of JSON on its input. The argument selects
the rule: endpoint or serves. The first line of output is torch's version.
"""

import json
import socket
import sys

import torch
from torch.distributed.elastic.rendezvous import utils


def endpoint(text):
    """Returns how torchrun reads a value of --rdzv_endpoint."""
    try:
        host, port = utils.parse_rendezvous_endpoint(text, 29400)
    except ValueError as problem:
        return {"error": f"ValueError: {problem}"}
    return {"host": host, "port": port}


def serves(node):
    """Returns whether torchrun believes that a machine with these names is the host of an endpoint."""
    with open("/etc/hosts", "w") as hosts:
        hosts.write(node["hosts"])
    socket.sethostname(node["own"])
    try:
        return "yes" if utils._matches_machine_hostname(node["host"]) else "no"
    except socket.gaierror:
        return "dies"


rule = {"endpoint": endpoint, "serves": serves}[sys.argv[1]]
print(json.dumps(torch.__version__))
for line in sys.stdin:
    print(json.dumps(rule(json.loads(line))))
