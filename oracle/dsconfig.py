# SPDX-License-Identifier: Apache-2.0
"""Lets DeepSpeed read a configuration for every line of JSON on its input, {"text":
…, "world": 8}, and prints the errors that it dies with, as Python prints them; none if
it reads the file. The first line of output is DeepSpeed's version.
"""

import json
import sys
import tempfile

print_answers, sys.stdout = sys.stdout, sys.stderr  # DeepSpeed logs on standard output

import deepspeed
from deepspeed.runtime import config as reader

try:
    from pydantic.v1 import ValidationError as OldValidationError
except ImportError:
    from pydantic import ValidationError as OldValidationError
from pydantic import ValidationError


def lines(problem):
    kind = type(problem)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if not isinstance(problem, (ValidationError, OldValidationError)):
        return [f"{name}: {problem}"]
    name = name.replace("pydantic.v1.", "pydantic.")
    # If the stage is invalid, pydantic 1 also reports another setting that needs it.
    found = [error for error in problem.errors() if "must be defined before" not in error["msg"]]
    title = getattr(problem, "title", None) or problem.model.__name__
    head = f"{name}: {len(found)} validation error{'s' * (len(found) > 1)} for {title}: "
    where = [".".join(str(part) for part in error["loc"]) for error in found]
    return [head + f"{at}: {error['msg']}" if at else head + error["msg"] for at, error in zip(where, found)]


def read(order):
    reader.dist.get_world_size = lambda *group: order["world"]
    reader.dist.get_rank = lambda *group: 0
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(order["text"])
        file.flush()
        try:
            reader.DeepSpeedConfig(file.name)
        except Exception as problem:
            return lines(problem)
    return []


print(json.dumps(deepspeed.__version__), file=print_answers)
for line in sys.stdin:
    print(json.dumps(read(json.loads(line))), file=print_answers)
