"""What a model keeps, and generators of random numbers, put back after it ran."""

from __future__ import annotations

import operator
import random
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def state_kept(root: torch.nn.Module, added: Collection[str]) -> Iterator[None]:
    """Put back, afterwards, the attributes of modules, what those hold, and random generators.

    Names in `added`, which is read at the end, stay on the root: the graph refers to them.
    """
    attributes = [(module, dict(vars(module))) for module in root.modules()]
    tables = [
        (module, name, dict(vars(module).get(name) or {}))
        for module in root.modules()
        for name in ("_parameters", "_buffers", "_modules")
    ]
    # Batch norm writes to its buffers without counting a version, so contents are compared.
    kept_tensors = {id(each): each for each in (*root.buffers(), *_values_of(root, torch.Tensor))}.values()
    copies = [(tensor, tensor.detach().clone()) for tensor in kept_tensors if has_contents(tensor)]
    containers = [(value, value.copy()) for kind in (list, dict, set) for value in _values_of(root, kind)]
    memory = [(tensor, tensor.detach()) for tensor in (*root.parameters(), *root.buffers())]
    generators = _generators()
    try:
        yield
    finally:
        kept = {name: table[name] for table in _tables(root) for name in added if name in table}
        for restore, state in generators:
            restore(state)
        for tensor, alias in memory:
            if not _is_same_memory(tensor, alias):
                tensor.data = alias
        for buffer, copied in copies:
            if not _is_equal(buffer, copied):
                with torch.no_grad():
                    buffer.copy_(copied)
        for module, name, table in tables:
            held = vars(module).get(name)
            if held is not None and (list(held) != list(table) or any(held[key] is not table[key] for key in table)):
                held.clear()
                held.update(table)
        for container, items in containers:
            _restore(container, items)
        for module, before in attributes:
            now = vars(module)
            for name in [name for name in now if name not in before]:
                del now[name]
            now.update({name: value for name, value in before.items() if now.get(name) is not value})
        for name, value in kept.items():
            setattr(root, name, value)


def _generators() -> list[tuple[Callable[[Any], None], Any]]:
    """Return the state of the generators of torch, Python and, if it is there, numpy, and what sets each."""
    found: list[tuple[Callable[[Any], None], Any]] = [
        (torch.set_rng_state, torch.get_rng_state()),
        (random.setstate, random.getstate()),
    ]
    of_numpy: Any = sys.modules.get("numpy.random")
    return found if of_numpy is None else [*found, (of_numpy.set_state, of_numpy.get_state())]


def seed_generators(seed: int) -> None:
    """Let torch, Python and, if it is there, numpy draw the same numbers from here on."""
    torch.manual_seed(seed)
    random.seed(seed)
    of_numpy: Any = sys.modules.get("numpy.random")
    if of_numpy is not None:
        of_numpy.seed(seed)


def _values_of(root: torch.nn.Module, kind: type) -> list[Any]:
    """Return the plain attributes of a module and those in it that are of a type, and no tables of torch's."""
    return [
        value
        for module in root.modules()
        for name, value in vars(module).items()
        if type(value) is kind and name not in _OF_TORCH
    ]


_OF_TORCH = frozenset(vars(torch.nn.Module()))


def _restore(container: Any, items: Any) -> None:
    if len(container) == len(items) and all(map(operator.is_, _flat(container), _flat(items))):
        return
    container.clear()
    if isinstance(container, list):
        container.extend(items)
    else:
        container.update(items)


def _flat(container: Any) -> list[Any]:
    return [*container.keys(), *container.values()] if isinstance(container, dict) else list(container)


def has_contents(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor has values that can be read: those on the meta device and fake ones have none."""
    fake = getattr(sys.modules.get("torch._subclasses.fake_tensor"), "FakeTensor", ())
    return not (tensor.is_meta or isinstance(tensor, fake))


def _tables(module: torch.nn.Module) -> list[dict[str, Any]]:
    return [vars(module), module._parameters, module._buffers, module._modules]


def _is_equal(tensor: torch.Tensor, copied: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and torch.equal(tensor, copied)  # other layouts have no such comparison


def _is_same_memory(tensor: torch.Tensor, alias: torch.Tensor) -> bool:
    try:
        return tensor.data_ptr() == alias.data_ptr()
    except RuntimeError:  # of other layouts there is no such pointer, nor of a proxy that was put in its place
        return tensor.layout is not torch.strided
