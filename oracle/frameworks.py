# SPDX-License-Identifier: Apache-2.0
"""Runs the command line of LLaMA-Factory, axolotl or ms-swift for every line on its input,
until it would start a program. The arguments are the directory with the packages and the
directory in which every command runs. The first line of output lists the releases.

A line is {"argv": [...], "env": {...}, "devices": N}: the command, the whole environment, and
the number of devices that LLaMA-Factory finds. The answer is the command that it would start,
null if it starts none.

Packages that only a training needs are not installed. Imports of them give empty modules.
"""

import contextlib
import importlib.abc
import importlib.machinery
import io
import json
import os
import subprocess
import sys
from importlib.metadata import version
from unittest.mock import MagicMock

packages, root = map(os.path.realpath, sys.argv[1:])
sys.path.insert(0, packages)
NEEDED = {"llamafactory", "axolotl", "swift", "click", "yaml", "pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}


class Empty(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        top = name.partition(".")[0]
        if top not in NEEDED and top not in sys.stdlib_module_names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.__spec__, module.__path__, module.__name__ = spec, [], spec.name
        return module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Empty())

import llamafactory.cli
import llamafactory.extras.misc
from axolotl.cli.main import cli as axolotl
from swift.cli._megatron.main import cli_main as megatron
from swift.cli.main import cli_main as swift

MAINS = {"llamafactory-cli": llamafactory.cli.main, "axolotl": axolotl, "swift": swift, "megatron": megatron}


class Started(BaseException):
    pass


def start(*words, **_):
    raise Started(words[1] if isinstance(words[0], str) else words[0])


subprocess.run = os.execvpe = start


def answer(case):
    os.environ.clear()
    os.environ.update(case["env"])
    llamafactory.extras.misc.get_device_count = lambda: case["devices"]
    sys.argv = list(case["argv"])
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            MAINS[sys.argv[0]]()
    except Started as started:
        return started.args[0]
    except (Exception, SystemExit):
        pass


os.chdir(root)
with open("sft.yaml", "w") as config:
    config.write("ENV:\n  NPROC_PER_NODE: 4\nmodel: org/model\ndataset: [a.jsonl, b.jsonl]\nlora: {r: 8}\nlearning_rate: 1e-4\nbf16: true\n")
print(json.dumps(" ".join(name + " " + version(name) for name in ("llamafactory", "axolotl", "ms-swift"))))
for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))))
