"""The tensors that a module holds: parameters, buffers and plain attributes, of all modules below it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from pytest_fxgraph.equivalence.state.held_values import PLAIN, HeldValues
from pytest_fxgraph.equivalence.state.storage import ORDINARY, has_storage, is_readable, storage_of


class StateTensor(NamedTuple):
    """One tensor of a module."""

    name: str  # its path: "conv.weight"
    kind: str  # "parameter", "buffer", "attribute"
    tensor: torch.Tensor
    # In a list, an object or a module that is not registered: a graph has no such name, but may have the same tensor.
    is_nested: bool = False

    @property
    def label(self) -> str:
        """Return its name in messages: "parameter conv.weight"."""
        return f"{self.kind} {self.name}"


class ModuleState:
    """The tensors that a module, and all modules below it, hold at one time."""

    def __init__(self, root: object) -> None:
        """List the tensors of `root`, none if it is no module; TypeError if a lazy module has no shapes yet."""
        self.modules = modules_by_path(root)  # those in lists and objects after the registered ones
        registered = {id(module) for _, module in self.modules}
        self.held = HeldValues(known=lambda value: id(value) in registered)
        self.tensors: list[StateTensor] = []
        for path, module in self.modules:
            self._list_tensors(path, module, is_nested=False)
        tensors = {id(state.tensor) for state in self.tensors} if self.held.tensors or self.held.modules else set()
        for path, hidden in self.held.modules:  # grows while it is read
            below = [(f"{path}.{inner}" if inner else path, module) for inner, module in modules_by_path(hidden)]
            for inner, module in below:
                if id(module) not in registered:
                    registered.add(id(module))
                    self.modules.append((inner, module))
                    self._list_tensors(inner, module, is_nested=True)
        self.tensors += [
            StateTensor(path, "attribute", tensor, is_nested=True)
            for path, tensor in self.held.tensors
            if id(tensor) not in tensors and not is_lazy(tensor) and is_readable(tensor)
        ]

    def _list_tensors(self, path: str, module: nn.Module, *, is_nested: bool) -> None:
        prefix = f"{path}." if path else ""
        found = self.tensors
        for kind, attribute in (("parameter", "_parameters"), ("buffer", "_buffers")):
            entries = getattr(module, attribute, None)  # none of a module that a transform spoilt
            for name, value in entries.items() if entries else ():
                if type(value) in ORDINARY:  # nearly always; the questions below take as long as all the rest
                    found.append(StateTensor(prefix + name, kind, value, is_nested))
                elif isinstance(value, torch.Tensor):
                    if is_lazy(value):
                        if is_nested:
                            continue
                        raise TypeError(_missing_shape_message(name, module))
                    if is_readable(value):
                        found.append(StateTensor(prefix + name, kind, value, is_nested))
        for name, value in module.__dict__.items():
            if name in OF_EVERY_MODULE or type(value) in PLAIN:
                continue
            if isinstance(value, torch.Tensor):
                if is_readable(value):
                    found.append(StateTensor(prefix + name, "attribute", value, is_nested))
            elif not (name.startswith("_") and is_graph_module(module)):  # of a graph module those are its code
                self.held.follow(prefix + name, value)

    def in_storages_of(self, tensors: Iterable[torch.Tensor]) -> Mapping[int, list[StateTensor]]:
        """Group the tensors that share storage with one of some others by their storage, as `storage_of` gives it."""
        by_storage = {storage_of(tensor): tensor for tensor in tensors if has_storage(tensor)}
        spans = [_span(tensor) for tensor in by_storage.values()]
        low, high = min([start for start, _ in spans], default=0), max([end for _, end in spans], default=0)
        found: dict[int, list[StateTensor]] = {}
        for state in self.tensors if by_storage else ():
            tensor = state.tensor
            # By its address first, in a tenth of the time that its storage takes.
            if low and type(tensor) in ORDINARY and tensor.layout is torch.strided:
                address = tensor.data_ptr()
                if address and not low <= address < high:
                    continue
            if has_storage(tensor) and (storage := storage_of(tensor)) in by_storage:
                found.setdefault(storage, []).append(state)
        return found


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the address of a storage, and the one after it; 0 where torch warns of asking, of fake tensors."""
    if type(tensor) not in ORDINARY:
        return 0, 0
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def modules_by_path(root: object) -> list[tuple[str, nn.Module]]:
    """List a module and all below it under every path that leads to them; nothing if `root` is no module."""
    found: list[tuple[str, nn.Module]] = []
    if isinstance(root, nn.Module):
        _list_modules("", root, found, set())
    return found


def _list_modules(path: str, module: nn.Module, found: list[tuple[str, nn.Module]], above: set[int]) -> None:
    found.append((path, module))
    children = getattr(module, "_modules", None)
    if not children:  # most are leaves
        return
    above.add(id(module))
    for name, child in children.items():
        if child is not None and id(child) not in above:  # a module may hold itself
            _list_modules(f"{path}.{name}" if path else name, child, found, above)
    above.discard(id(module))


def is_graph_module(module: nn.Module) -> bool:
    """Tell whether a module keeps compiled code in attributes, as graph modules and scripted ones do."""
    if type(module).__module__.startswith("torch.nn.modules."):  # asked of every module in every check
        return False
    return isinstance(module, torch.jit.ScriptModule) or any(
        kind.__name__ == "GraphModule" for kind in type(module).__mro__
    )


# Attributes that every module has, none of them a tensor; the dicts among them hold what torch registers.
OF_EVERY_MODULE = frozenset(vars(nn.Module()))


def _missing_shape_message(name: str, module: nn.Module) -> str:
    return (
        f"cannot compare eager and graph: {name!r} of a {type(module).__name__} has no shape before the first call, "
        "and that call would change the model; call the model once before the check"
    )
