"""What a module is before a lane runs, and putting it back afterwards."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

# Of a graph module only these are put back: what else it holds is its compiled code, which a lane cannot harm.
_STATE_ATTRIBUTES = ("training", "_parameters", "_buffers", "_modules")


@dataclass(frozen=True)
class StateTensor:
    """One tensor of a module, by the name under which users know it."""

    name: str  # "conv.weight"
    kind: str  # "parameter", "buffer", "attribute"
    tensor: torch.Tensor

    @property
    def words(self) -> str:
        """Name it for a message."""
        return f"{self.kind} {self.name}"


def state_tensors(root: object) -> list[StateTensor]:
    """List parameters, buffers (persistent or not) and plain tensor attributes of all modules below a root."""
    if not isinstance(root, nn.Module):
        return []
    found: list[StateTensor] = []
    for path, module in root.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        for kind, entries in (
            ("parameter", module._parameters),
            ("buffer", module._buffers),
            ("attribute", module.__dict__),
        ):
            for name, value in entries.items():
                if isinstance(value, torch.Tensor):
                    found.append(StateTensor(prefix + name, kind, value))
    return found


class StateGuard:
    """Keeps the state of some modules, tells what a lane changed in it, and restores it."""

    def __init__(self, *roots: object) -> None:
        self._attributes: dict[int, _SavedAttributes] = {}
        self._tensors: dict[int, _SavedTensor] = {}
        self._states: dict[int, list[StateTensor]] = {}
        for root in roots:
            self.include(root)

    def include(self, root: object) -> None:
        """Keep the state of one more module; what is known already stays as it was first seen."""
        modules = list(_modules(root))
        _refuse_uninitialised(modules)
        for module in modules:
            if id(module) not in self._attributes:
                self._attributes[id(module)] = _SavedAttributes(module)
        if id(root) not in self._states:
            self._states[id(root)] = state_tensors(root)
        for state in self._states[id(root)]:
            if id(state.tensor) not in self._tensors:
                self._tensors[id(state.tensor)] = _SavedTensor(state.tensor)

    def states_of(self, root: object) -> list[StateTensor]:
        """List the state of a module as it was when the guard came to know it."""
        return self._states.get(id(root), [])

    def changed(self, *, trust_versions: bool = False) -> set[int]:
        """Give the ids of the tensors that hold other values than when the guard was made.

        Trusting versions, parameters that torch saw no write to are not looked at: writes through `.data` stay unseen.
        """
        return {key for key, saved in self._tensors.items() if saved.has_changed(trust_versions)}

    def was_changed_unseen(self, changed: set[int]) -> bool:
        """Tell whether one of the changed tensors was written in a way that versions do not show."""
        return any(not self._tensors[key].has_new_version() for key in changed)

    def restore(self, changed: set[int] | None = None) -> None:
        """Put everything back: values, gradients, the tensors held under each name, training flags, attributes.

        Whoever has just asked changed() hands the answer over, and the values are not looked at again.
        """
        for attributes in self._attributes.values():
            attributes.restore()
        changed = self.changed() if changed is None else changed
        for key, saved in self._tensors.items():
            saved.restore(key in changed)


class _SavedTensor:
    """A tensor and what it was."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.value = tensor.detach().clone()
        self.grad = tensor.grad if tensor.is_leaf else None
        self.requires_grad = tensor.requires_grad
        self.version = _version_of(tensor)

    def has_new_version(self) -> bool:
        return self.version is None or _version_of(self.tensor) != self.version

    def has_changed(self, trust_versions: bool = False) -> bool:
        if trust_versions and isinstance(self.tensor, nn.Parameter) and not self.has_new_version():
            return False
        return not _same(self.value, self.tensor.detach())

    def restore(self, has_changed: bool) -> None:
        if has_changed:
            if self.tensor.shape == self.value.shape and self.tensor.dtype == self.value.dtype:
                with torch.no_grad():
                    self.tensor.detach().copy_(self.value)
            else:
                self.tensor.data = self.value.clone()
        self.version = _version_of(self.tensor)
        if self.tensor.is_leaf:
            if self.tensor.grad is not self.grad:
                self.tensor.grad = self.grad
            if self.tensor.requires_grad != self.requires_grad:
                self.tensor.requires_grad_(self.requires_grad)


def _version_of(tensor: torch.Tensor) -> int | None:
    """Give torch's count of writes; None for tensors of inference mode, which have none."""
    return None if tensor.is_inference() else tensor._version


class _SavedAttributes:
    """The attributes of one module, and what its dicts, lists and sets held."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.is_partial = _is_graph_module(module)
        names = _STATE_ATTRIBUTES if self.is_partial else tuple(module.__dict__)
        self.values = {name: module.__dict__[name] for name in names if name in module.__dict__}
        self.contents = {
            name: value.copy() for name, value in self.values.items() if isinstance(value, (dict, list, set))
        }

    def restore(self) -> None:
        held = self.module.__dict__
        if not self.is_partial:
            for name in [name for name in held if name not in self.values]:
                del held[name]
        for name, value in self.values.items():
            if name not in held or held[name] is not value:
                held[name] = value
        for name, content in self.contents.items():
            container = self.values[name]
            if content or container:  # most hooks and buffers of most modules are none, before and after
                _refill(container, content)


def _refill(container: Any, content: Any) -> None:
    """Make a dict, list or set hold again what it held, in the order it held it."""
    if _holds(container, content):
        return
    container.clear()
    container.extend(content) if isinstance(container, list) else container.update(content)


def _holds(container: Any, content: Any) -> bool:
    """Tell whether a container holds the very objects that it held; equality would compare tensors."""
    if len(container) != len(content):
        return False
    if isinstance(container, set):
        return bool(container == content)
    if isinstance(container, dict):
        return list(container) == list(content) and all(map(operator.is_, container.values(), content.values()))
    return all(map(operator.is_, container, content))


def _same(value: torch.Tensor, now: torch.Tensor) -> bool:
    facts = [(tensor.shape, tensor.dtype, tensor.layout, tensor.device) for tensor in (value, now)]
    if facts[0] != facts[1]:
        return False
    if value.is_meta:
        return True
    if value.layout is not torch.strided:
        value, now = value.to_dense(), now.to_dense()
    return torch.equal(_bits(value), _bits(now))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Look at the bits, eight bytes at a time where that can be: twice as fast, and NaN equals itself."""
    flat = tensor.contiguous().resolve_conj().resolve_neg().reshape(-1)
    if flat.is_quantized:
        flat = flat.int_repr()
    return flat.view(torch.uint8 if flat.nbytes % 8 or flat.storage_offset() * flat.element_size() % 8 else torch.int64)


def _modules(root: object) -> Iterator[nn.Module]:
    if isinstance(root, nn.Module):
        yield from root.modules()


def _is_graph_module(module: nn.Module) -> bool:
    return isinstance(module, torch.jit.ScriptModule) or any(
        kind.__name__ == "GraphModule" for kind in type(module).__mro__
    )


def _refuse_uninitialised(modules: Any) -> None:
    for module in modules:
        for name, value in [*module._parameters.items(), *module._buffers.items()]:
            if isinstance(value, (nn.UninitializedParameter, nn.UninitializedBuffer)):
                raise TypeError(
                    f"cannot compare eager and graph: {name!r} of a {type(module).__name__} has no shape before the "
                    "first call, and that call would change the model; call the model once before the check"
                )
