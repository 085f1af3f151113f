"""A folder that reproduces a mismatch without the test: a script, and the model, state and inputs that it loads."""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

import fxcore
from fxcore.codegen.globals import CUSTOM_BUILTINS
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.run import InterpreterCall, RecordedRun, RunResult, RunSettings

_SCRIPT = '''"""{headline}

Found by {test}.
Run it with `python repro.py`: it prints what differs and ends with 1, and with 0 once model and graph agree.
state.pt, which lies beside it, holds {held}.
"""

import sys
from pathlib import Path

{imports}
from pytest_fxgraph import assert_equivalent

{code}

class Graph(torch.nn.Module):
    forward = graph_forward


state = torch.load(Path(__file__).with_name("state.pt"), weights_only=False)
graph = Graph()
vars(graph).update(state["graph"])
try:
    {check}
except AssertionError as mismatch:
    print(mismatch.section)
    sys.exit(1)
print("model and graph agree")
'''
_INTERPRETED = """
# An interpreter runs the graph, whose nodes are in state.pt.
def graph_forward(self, *args, **kwargs):
    return {kind}(self.graph_module).run(*args, *(kwargs[name] for name in {names} if name in kwargs))
"""
_RECORDED = "what the graph reads, the inputs, and what the model returned: the model itself could not be pickled"


class ReproductionFolder:
    """Writes the mismatches of one test, each to a folder of its own."""

    def __init__(self, folder: str | os.PathLike[str], test: str) -> None:
        """Write below `folder`, in folders named by the test's id."""
        self._test = test
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", test)[-80:].strip("-.")
        self._place = Path(folder) / f"{name}-{hashlib.sha256(test.encode()).hexdigest()[:8]}"
        self._written = 0

    def write(
        self,
        headline: str,
        model: Any,
        graph: Any,
        call: Any,
        settings: RunSettings,
        options: Mapping[str, Any],
        expected: RunResult,
        mismatches: list[Mismatch],
    ) -> str | None:
        """Write one mismatch, and return a line with the place, or with the reason of a failure.

        `call` ran the graph: the graph itself, or an InterpreterCall. `options` are options of assert_equivalent, with
        None for a default. `expected` is the result of the model's run, and is saved if the model cannot be pickled.
        Return None if a script would not show the mismatch.
        """
        if not isinstance(graph, fxcore.GraphModule) or all(each.kind == "code" for each in mismatches):
            return None
        self._written += 1
        place = self._place if self._written == 1 else self._place.with_name(f"{self._place.name}-{self._written}")
        interpreter = call.kind if isinstance(call, InterpreterCall) else None
        try:
            place.mkdir(parents=True, exist_ok=True)
            attributes = _attributes_read(graph)
            if interpreter is not None:
                attributes["graph_module"] = graph
            has_model = _save(place / "state.pt", model, attributes, settings, expected)
            code, imports = _interpreted(graph, interpreter) if interpreter is not None else _generated(graph)
            folders = dict.fromkeys(filter(None, map(_import_folder, (model, interpreter))))
            script = _SCRIPT.format(
                headline=headline.replace("\\", "/").replace('"""', "'''"),
                test=self._test,
                held="the model, what the graph reads, and the inputs" if has_model else _RECORDED,
                imports="\n".join([*(f"sys.path.insert(0, {folder!r})" for folder in folders), *imports]),
                code=code.strip() + "\n",
                check=_check(settings, {**options, "strict_inputs": any(each.kind == "input" for each in mismatches)}),
            )
            (place / "repro.py").write_text(script, encoding="utf-8", newline="\n")
        except (OSError, pickle.PicklingError, AttributeError, TypeError, RuntimeError) as error:
            return f"no script that reproduces it could be written to {place}: {type(error).__name__}: {error}"
        return f"to reproduce it without the tests: python {place / 'repro.py'}"


def _save(file: Path, model: Any, attributes: dict[str, Any], settings: RunSettings, expected: RunResult) -> bool:
    """Save all in one file, so that shared tensors stay shared; return whether the file holds the model."""
    state = {"graph": attributes, "args": settings.arguments.args, "kwargs": settings.arguments.kwargs}
    try:
        torch.save({**state, "model": model}, file)
        return True
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError):
        # A class within a function, or a lambda.
        torch.save({**state, "model": RecordedRun(expected)}, file)
        return False


def _attributes_read(graph: fxcore.GraphModule) -> dict[str, Any]:
    """Return the attributes of a graph module that its generated code reads, shared, not copied."""
    wanted = {*vars(nn.Module()), "_in_spec", "_out_spec"}
    wanted |= {str(node.target).partition(".")[0] for node in graph.graph.nodes}
    return {name: value for name, value in vars(graph).items() if name in wanted}


def _import_folder(obj: Any) -> str | None:
    """Return the folder from which a class or function, or the class of a module, can be imported."""
    kind = type(obj) if isinstance(obj, nn.Module) else obj
    module = getattr(kind, "__module__", None) or ""
    file = getattr(sys.modules.get(module), "__file__", None)
    return str(Path(file).resolve().parents[module.count(".")]) if file else None


def _generated(graph: fxcore.GraphModule) -> tuple[str, list[str]]:
    """Return the code of a graph, and the imports that it needs."""
    code = graph.graph.python_code("self")
    text = code.src.strip().replace("def forward(", "def graph_forward(")
    imports = dict.fromkeys(["import torch", *_imports(graph.code, code.globals)])
    return f"# The code of the graph; `self` holds its parameters, buffers and modules.\n{text}", list(imports)


def _interpreted(graph: fxcore.GraphModule, kind: Any) -> tuple[str, list[str]]:
    names = [str(node.target) for node in graph.graph.nodes if node.op == "placeholder"]
    code = _INTERPRETED.format(kind=kind.__name__, names=names)
    return code, ["import torch", f"from {kind.__module__} import {kind.__name__}"]


def _imports(code: str, names: dict[str, Any]) -> Iterator[str]:
    for name, obj in names.items():
        if name in CUSTOM_BUILTINS:
            if name != "fx_pytree" or "fx_pytree." in code:
                yield CUSTOM_BUILTINS[name].import_str
            continue
        module, own_name = getattr(obj, "__module__", None), str(getattr(obj, "__qualname__", name))
        if module and own_name.isidentifier():
            yield f"from {module} import {own_name} as {name}"
        else:
            yield f"{name} = None  # {own_name} cannot be imported: put it here"


def _check(settings: RunSettings, options: Mapping[str, Any]) -> str:
    """Return the call that compares, inside a with statement for the modes of the test, if there were modes."""
    options = {**options, "grads": settings.grads or None, "seed": settings.seed or None,
               "strict_inputs": options.get("strict_inputs") or None}  # fmt: skip
    given = "".join(f", {name}={value!r}" for name, value in options.items() if value is not None)
    call = f'assert_equivalent(state["model"], graph, state["args"], kwargs=state["kwargs"]{given})'
    if settings.second_call:  # state that is kept between calls shows in the second call
        call = f"for _ in range(2):\n        {call}"
    modes = []
    if torch.is_autocast_enabled("cpu"):
        modes.append(f'torch.autocast("cpu", {torch.get_autocast_dtype("cpu")})')
    if not settings.grads and torch.is_inference_mode_enabled():
        modes.append("torch.inference_mode()")
    elif not settings.grads and not torch.is_grad_enabled():
        modes.append("torch.no_grad()")
    if not modes:
        return call
    call = call.replace("\n", "\n    ")
    return f"with {', '.join(modes)}:\n        {call}"
