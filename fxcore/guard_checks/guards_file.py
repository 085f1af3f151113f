"""The guards of a graph as a file, for the forward that `to_folder` writes."""

from __future__ import annotations

import ast
from collections.abc import Container
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fxcore.graph import Graph
from fxcore.guard_checks.checks import is_checked
from fxcore.guard_checks.guarded_forward import GuardedForward
from fxcore.serialization.pickling import graph_data, graph_from_data

_NAME = "forward.guards.pt"  # no child, whose file has its name, has a name with a dot


class GuardsFile:
    """The guards in a file. The first check reads the file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._guarded: GuardedForward | None = None

    def check(self, module: nn.Module, *args: Any, **kwargs: Any) -> None:
        """Raise GuardError (a ValueError) with the first guard that does not hold for a call of the forward."""
        # Dynamo may be watching this thread. It compiles the forward behind the checks.
        watcher = torch._C._dynamo.eval_frame.set_eval_frame(None)
        try:
            if is_checked(*args, *kwargs.values()):
                if self._guarded is None:
                    graph: Any = graph_from_data(torch.load(self._file, weights_only=False))
                    self._guarded = GuardedForward(graph, graph.guards, module, graph.python_code("self"))
                self._guarded.check(module, args, kwargs)
        finally:
            torch._C._dynamo.eval_frame.set_eval_frame(watcher)


def written_guards(graph: Graph, folder: Path, code: str, names: Container[str]) -> tuple[str, list[str]]:
    """Write the guards of a graph to a folder. Return the graph's code with a check, and definitions for the code.

    `names` are the globals of the code. All guards are checked before the first statement of the forward.
    """
    torch.save(graph_data(graph), folder / _NAME)
    name = "guards"
    while name in code or name in names:
        name += "_"
    definitions = [
        "from fxcore.guard_checks.guards_file import GuardsFile",
        f"{name} = GuardsFile(r'{folder}/{_NAME}')",
    ]
    [function] = [each for each in ast.parse(code).body if isinstance(each, ast.FunctionDef)]
    parameters = function.args
    given = [each.arg for each in (*parameters.posonlyargs, *parameters.args)]
    given += [f"*{parameters.vararg.arg}"] if parameters.vararg else []
    given += [f"{each.arg}={each.arg}" for each in parameters.kwonlyargs]
    given += [f"**{parameters.kwarg.arg}"] if parameters.kwarg else []
    lines = code.split("\n")
    lines.insert(function.body[0].lineno - 1, f"    {name}.check({', '.join(given)})")
    return "\n".join(lines), definitions
