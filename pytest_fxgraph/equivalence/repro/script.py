"""What the scripts that reproduce a mismatch have in common; they need torch alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

import fxcore
from fxcore.codegen.globals import CUSTOM_BUILTINS
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.run import RunSettings

TEMPLATE = '''"""{headline}

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


{graph}


def load():
    """Read everything anew: a call may change its inputs and its module."""
    return torch.load(Path(__file__).with_name("state.pt"), weights_only=False)


def parts_of(value):
    if isinstance(value, dict):
        return [(f"[{{key!r}}]", part) for key, part in value.items()]
    if hasattr(value, "_fields"):
        return [(f".{{name}}", part) for name, part in zip(value._fields, value)]
    if isinstance(value, (list, tuple)):
        return [(f"[{{index}}]", part) for index, part in enumerate(value)]
    if hasattr(value, "__dataclass_fields__"):
        return [(f".{{name}}", getattr(value, name)) for name in value.__dataclass_fields__]
    return None


def leaves(value, path):
    parts = parts_of(value)
    if parts is None:
        return {{path: value}}
    return {{where: leaf for step, part in parts for where, leaf in leaves(part, path + step).items()}}


def tensors(found):
    return {{path: leaf for path, leaf in found.items() if isinstance(leaf, torch.Tensor)}}


def named_state(root):
    if not isinstance(root, torch.nn.Module):
        return {{}}
    return {{**dict(root.named_parameters()), **dict(root.named_buffers())}}


def copied(value, copies):
    """Build nested inputs anew, with other tensors."""
    if isinstance(value, torch.Tensor):
        return copies[id(value)]
    if isinstance(value, dict):
        return type(value)((key, copied(part, copies)) for key, part in value.items())
    if hasattr(value, "_fields"):
        return type(value)(*(copied(part, copies) for part in value))
    return type(value)(copied(part, copies) for part in value) if isinstance(value, (list, tuple)) else value


def named_inputs(args, kwargs):
    given = {{**dict(enumerate(args)), **kwargs}}
    return {{where: leaf for name, value in given.items() for where, leaf in leaves(value, f"input {{name}}").items()}}


def storage_of(tensor):
    is_plain = tensor.layout is torch.strided and not tensor.is_nested and tensor.numel()
    return tensor.untyped_storage().data_ptr() if is_plain else None


def sharing(outputs, others):
    """Tell which inputs, state and earlier outputs each output shares memory with."""
    known, found = list(others.items()), {{}}
    for path, tensor in outputs.items():
        place = storage_of(tensor)
        shared = sorted(name for name, other in known if place is not None and storage_of(other) == place)
        found[f"memory shared by {{path}}"] = shared
        known.append((path, tensor))
    return found


def next_numbers():
    numbers = {{"the next number of torch": torch.rand(()).item(), "the next number of random": random.random()}}
    if "numpy" in sys.modules:
        numbers["the next number of numpy"] = float(sys.modules["numpy"].random.rand())
    return numbers


def seed_all():
    torch.manual_seed(SEED)
    random.seed(SEED)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(SEED % 2**32)


def run(name, call):
    state = load()
    root, args, kwargs = state[name], state["args"], state["kwargs"]
    names = {{id(tensor): where for where, tensor in named_state(state["model"]).items()}}
    of_root = {{names.get(id(tensor), where): tensor for where, tensor in named_state(root).items()}}
    sources = {{}}
    if GRADIENTS:
        given = tensors(named_inputs(args, kwargs))
        is_leaf = {{id(leaf): leaf.is_floating_point() or leaf.is_complex() for leaf in given.values()}}
        for leaf in given.values():
            leaf.requires_grad_(is_leaf[id(leaf)])
        sources = {{path: leaf for path, leaf in given.items() if is_leaf[id(leaf)]}}
        # A forward may change its inputs in place, which torch forbids for leaves.
        copies = {{id(leaf): leaf.clone() if is_leaf[id(leaf)] else leaf for leaf in given.values()}}
        args, kwargs = copied(args, copies), copied(kwargs, copies)
    seed_all()
    {context}:
        output = call(root, *args, **kwargs)
    seen = leaves(output, "output")
    seen.update(next_numbers())
    inputs = named_inputs(args, kwargs)
    seen.update(inputs)
    seen.update(sharing(tensors(leaves(output, "output")), {{**tensors(inputs), **of_root}}))
    seen.update({{f"state {{where}}": tensor.detach().clone() for where, tensor in of_root.items()}})
    if GRADIENTS:
        seen.update(gradients(output, sources, of_root, state["weights"]))
    return seen


def gradients(output, sources, of_root, weights):
    """Differentiate the sum of all outputs, weighted as in the test."""
    outputs = {{path: leaf for path, leaf in tensors(leaves(output, "output")).items() if leaf.requires_grad}}
    seen = {{f"requires_grad of {{path}}": path in outputs for path in tensors(leaves(output, "output"))}}
    wanted = {{**sources, **{{name: tensor for name, tensor in of_root.items() if tensor.requires_grad}}}}
    chosen = [path for path in outputs if path in weights]
    if chosen and wanted:
        found = torch.autograd.grad(
            [outputs[path] for path in chosen], list(wanted.values()), [weights[path] for path in chosen],
            allow_unused=True,
        )
        seen.update({{f"gradient of {{name}}": gradient for name, gradient in zip(wanted, found)}})
    return seen


def strides(tensor):
    if tensor.layout is not torch.strided or not tensor.numel():
        return None
    return [step for size, step in zip(tensor.shape, tensor.stride()) if size > 1]


def differ(path, expected, obtained):
    """Say what differs between two values; None where they agree."""
    if not (isinstance(expected, torch.Tensor) and isinstance(obtained, torch.Tensor)):
        is_same = expected == obtained or (type(expected) is type(obtained) and type(expected).__eq__ is object.__eq__)
        return None if is_same else f"{{expected!r}} in eager, {{obtained!r}} in the graph"
    try:
        torch.testing.assert_close(obtained.detach(), expected.detach(), {tolerance}equal_nan=True)
    except AssertionError as error:
        return str(error)
    if path.startswith("output") and strides(expected) != strides(obtained):
        return f"stride {{expected.stride()}} in eager, {{obtained.stride()}} in the graph"
    return None


def main():
    eager = {eager}
    graph = run("graph", graph_forward)
    found = []
    for path in eager:
        if path in graph:
            words = differ(path, eager[path], graph[path])
            found += [f"{{path}}: {{words}}"] if words else []
    found += [f"{{path}}: missing in the graph" for path in eager if path.startswith("output") and path not in graph]
    found += [f"{{path}}: missing in eager" for path in graph if path.startswith("output") and path not in eager]
    before = load()["before"]
    lost = [path for path in before if path not in graph and path in eager and differ(path, before[path], eager[path])]
    found += [f"{{path}}: changed by eager, and the graph has no such state" for path in lost]
    print("\\n".join(found) or "model and graph agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
'''


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
    settings: RunSettings
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
