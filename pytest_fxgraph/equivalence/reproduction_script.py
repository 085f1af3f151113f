"""The text of a script that runs a model and its graph side by side, without the tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

import fxcore
from fxcore.generated_globals import CUSTOM_BUILTINS
from pytest_fxgraph.equivalence.lanes import LaneSettings
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.reproduction_template import TEMPLATE

_INTERPRETED = """
# The graph is run by an interpreter: its nodes are in state.pt.
def graph_forward(graph, *args, **kwargs):
    return {kind}(graph).run(*args, *(kwargs[name] for name in {names} if name in kwargs))
"""


@dataclass(frozen=True)
class ScriptFacts:
    """What there is to know of one mismatch."""

    headline: str
    test: str
    graph: fxcore.GraphModule
    interpreter: type | None  # what the graph is run by, where it is not by its own code
    settings: LaneSettings
    mismatches: list[Mismatch]
    has_model: bool  # it could be saved
    homes: tuple[str, ...]  # folders from which model and interpreter can be imported


def script_text(facts: ScriptFacts) -> str:
    """Write the script."""
    held = "the model, what the graph reads, and the inputs"
    if not facts.has_model:
        held = "what the graph reads, the inputs, and what the model returned: the model itself could not be pickled"
    code, imports = _interpreted(facts) if facts.interpreter is not None else _generated(facts)
    return TEMPLATE.format(
        headline=facts.headline.replace("\\", "/").replace('"""', "'''"),
        test=facts.test,
        held=held,
        imports="\n".join([*(f"sys.path.insert(0, {home!r})" for home in facts.homes), *imports]),
        seed=facts.settings.seed,
        grads=facts.settings.grads,
        graph=code.strip(),
        context=_context(facts.settings.grads),
        tolerance=_tolerance(facts.mismatches),
        eager='run("model", lambda model, *args, **kwargs: model(*args, **kwargs))'
        if facts.has_model
        else 'load()["seen"]',
    )


def _generated(facts: ScriptFacts) -> tuple[str, list[str]]:
    """Give the code of the graph, and what it needs."""
    code = facts.graph.graph.python_code("self")
    text = code.src.strip().replace("def forward(", "def graph_forward(", 1)
    imports = dict.fromkeys(["import torch", *_imports(facts.graph.code, code.globals)])
    return f"# The code of the graph; `self` holds its parameters, buffers and modules.\n{text}", list(imports)


def _interpreted(facts: ScriptFacts) -> tuple[str, list[str]]:
    kind: Any = facts.interpreter
    names = [str(node.target) for node in facts.graph.graph.nodes if node.op == "placeholder"]
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


def _context(grads: bool) -> str:
    """Give the modes in which the lanes ran as a with statement."""
    modes = []
    if torch.is_autocast_enabled("cpu"):
        modes.append(f'torch.autocast("cpu", {torch.get_autocast_dtype("cpu")})')
    if not grads and torch.is_inference_mode_enabled():
        modes.append("torch.inference_mode()")
    elif not grads and not torch.is_grad_enabled():
        modes.append("torch.no_grad()")
    return f"with {', '.join(modes or ['torch.enable_grad()'])}"


def _tolerance(mismatches: list[Mismatch]) -> str:
    for mismatch in mismatches:
        if mismatch.statistics is not None:
            tolerance = mismatch.statistics.tolerance
            return f"rtol={tolerance.rtol}, atol={tolerance.atol}, "
    return ""
