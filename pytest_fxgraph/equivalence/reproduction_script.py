"""The text of a script that runs a model and the code of its graph side by side; it needs torch alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

import fxcore
from fxcore.generated_globals import CUSTOM_BUILTINS
from pytest_fxgraph.equivalence.lanes import LaneSettings
from pytest_fxgraph.equivalence.mismatch import Mismatch

_TEMPLATE = '''"""{headline}

Found by {test}.
Run it with `python repro.py`: it prints what differs and ends with 1, and with 0 once model and graph agree.
state.pt, which lies beside it, holds {held}.
"""

import random
import sys
from pathlib import Path

{imports}

SEED = {seed}
GRADIENTS = {grads}


# The code of the graph; `self` holds its parameters, buffers and modules.
{code}


def load():
    """Read everything anew: a call may change its inputs and its module."""
    return torch.load(Path(__file__).with_name("state.pt"), weights_only=False)


def seed_all():
    torch.manual_seed(SEED)
    random.seed(SEED)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(SEED % 2**32)


def leaves(value, path):
    if isinstance(value, dict):
        parts = [(f"[{{key!r}}]", part) for key, part in value.items()]
    elif isinstance(value, (list, tuple)):
        parts = [(f"[{{index}}]", part) for index, part in enumerate(value)]
    else:
        return {{path: value}}
    return {{where: leaf for step, part in parts for where, leaf in leaves(part, path + step).items()}}


def gradients(root, output, inputs):
    outputs = [leaf for leaf in leaves(output, "").values() if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    weights = [torch.linspace(-1, 1, leaf.numel(), dtype=leaf.real.dtype).reshape(leaf.shape) for leaf in outputs]
    sum((leaf.abs() * weight).sum() for leaf, weight in zip(outputs, weights)).backward()
    named = dict(root.named_parameters()) if isinstance(root, torch.nn.Module) else {{}}
    return {{f"gradient of {{name}}": tensor.grad for name, tensor in {{**named, **inputs}}.items()}}


def run(name, call):
    state = load()
    root, args, kwargs = state[name], state["args"], state["kwargs"]
    given = {{**leaves(args, "input "), **leaves(kwargs, "input ")}}
    tensors = {{path: leaf for path, leaf in given.items() if isinstance(leaf, torch.Tensor)}}
    floats = {{path: leaf for path, leaf in tensors.items() if leaf.is_floating_point()}}
    if GRADIENTS:
        for leaf in floats.values():
            leaf.requires_grad_()
    seed_all()
    {context}:
        output = call(root, *args, **kwargs)
    seen = leaves(output, "output")
    if isinstance(root, torch.nn.Module):
        seen.update({{f"buffer {{path}}": buffer for path, buffer in root.named_buffers()}})
    seen.update(gradients(root, output, floats) if GRADIENTS else given)
    return seen


def differ(expected, obtained):
    """Say what differs between two values; None where they agree."""
    if not (isinstance(expected, torch.Tensor) and isinstance(obtained, torch.Tensor)):
        is_same = expected == obtained or type(expected).__eq__ is object.__eq__
        return None if is_same else f"{{expected!r}} in eager, {{obtained!r}} in the graph"
    try:
        torch.testing.assert_close(obtained.detach(), expected.detach(), {tolerance}equal_nan=True)
    except AssertionError as error:
        return str(error)
    return None


def main():
    eager = {eager}
    graph = run("graph", graph_forward)
    found = [f"{{path}}: {{words}}" for path in eager if path in graph and (words := differ(eager[path], graph[path]))]
    found += [f"{{path}}: missing in the graph" for path in eager if path.startswith("output") and path not in graph]
    found += [f"{{path}}: missing in eager" for path in graph if path.startswith("output") and path not in eager]
    print("\\n".join(found) or "model and graph agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
'''


@dataclass(frozen=True)
class ScriptFacts:
    """What there is to know of one mismatch."""

    headline: str
    test: str
    graph: fxcore.GraphModule
    settings: LaneSettings
    mismatches: list[Mismatch]
    has_model: bool  # it could be saved
    home: str | None  # folder from which it can be imported


def script_text(facts: ScriptFacts) -> str:
    """Write the script."""
    code = facts.graph.graph.python_code("self")
    held = "the model, what the graph reads, and the inputs"
    if not facts.has_model:
        held = "what the graph reads, the inputs, and what the model returned: the model itself could not be pickled"
    return _TEMPLATE.format(
        headline=facts.headline.replace("\\", "/").replace('"""', "'''"),
        test=facts.test,
        held=held,
        imports="\n".join(_imports(facts, code.globals)),
        seed=facts.settings.seed,
        grads=facts.settings.grads and facts.has_model,
        code=code.src.strip().replace("def forward(", "def graph_forward(", 1),
        context=_context(facts.settings.grads),
        tolerance=_tolerance(facts.mismatches),
        eager='run("model", lambda model, *args, **kwargs: model(*args, **kwargs))'
        if facts.has_model
        else 'leaves(load()["expected"], "output")',
    )


def _imports(facts: ScriptFacts, names: dict[str, Any]) -> Iterator[str]:
    if facts.home is not None:
        yield f"sys.path.insert(0, {facts.home!r})"
    for name, obj in names.items():
        if name in CUSTOM_BUILTINS:
            if name != "fx_pytree" or "fx_pytree." in facts.graph.code:
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
