"""The changes of an example: other sizes, dtypes, structures, plain values, modes and attributes."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import inspect
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import torch
from torch import nn

from fxcore.state.held_state import modules_by_path
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.search.layouts import layouts_for, place

Kind = Literal["size", "tensor", "dtype", "value", "structure", "argument", "mode", "attribute"]

EVERYWHERE = "every input"
MODEL = "the model"
CALL = "the call"
_FLOATS = (torch.float32, torch.float64, torch.bfloat16)
_INTEGERS = (torch.int64, torch.int32, torch.bool)


@dataclasses.dataclass(frozen=True)
class Change:
    """One difference from the example. `edit` takes the value at `where`, or the model of a change of mode."""

    kind: Kind
    where: str  # the path of a value, EVERYWHERE, CALL, or the path of an attribute
    words: str
    edit: Callable[[Any], Any] = dataclasses.field(compare=False)

    def __str__(self) -> str:
        return f"{self.where} {self.words}"


def changes_of(model: Any, graph: Any, example: Arguments) -> dict[Kind, list[Change]]:
    """Return the changes of an example by kind; kinds without a change are left out."""
    found: list[Change] = [*_changes_of_arguments(model, example), *_modes(model, example), *_attributes(model, graph)]
    for name, value in example.named():
        for path, part in _nested(value, name):
            found += _changes_of_value(path, part, example)
    sizes = {size for _, tensor in example.tensors() for size in tensor.shape}
    for size in sorted(sizes):
        for other in _other_sizes(size):
            words = f"has the size {other} in place of {size}"
            found.append(Change("size", EVERYWHERE, words, partial(_resized_everywhere, size=size, other=other)))
    by_kind: dict[Kind, list[Change]] = {}
    for each in found:
        by_kind.setdefault(each.kind, []).append(each)
    return by_kind


def _nested(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield a value and all its parts with their paths, as `rewritten` names them."""
    seen: list[tuple[str, Any]] = []

    def noted(where: str, part: Any) -> Any:
        seen.append((where, part))
        return part

    rewritten(value, path, noted)
    yield from seen


def rewritten(value: Any, path: str, edited: Callable[[str, Any], Any]) -> Any:
    """Return a copy of a nested value with each part replaced by `edited(path, part)`, the innermost first."""
    if isinstance(value, (list, tuple)):
        parts = [rewritten(part, f"{path}[{index}]", edited) for index, part in enumerate(value)]
        value = type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    elif isinstance(value, dict):
        parts_of_dict = {key: rewritten(part, f"{path}[{key!r}]", edited) for key, part in value.items()}
        value = copy.copy(value)
        value.update(parts_of_dict)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = copy.copy(value)
        for each in dataclasses.fields(value):
            part = rewritten(getattr(value, each.name), f"{path}.{each.name}", edited)
            object.__setattr__(value, each.name, part)
    return edited(path, value)


def _other_sizes(size: int) -> list[int]:
    return sorted({1, max(size - 1, 0), size + 1, 2 * size} - {size})


def _resized(tensor: Any, dim: int, size: int) -> Any:
    """Return a tensor of another size, with the elements of the example over and over."""
    if not isinstance(tensor, torch.Tensor) or dim >= tensor.dim():
        return tensor
    own = tensor.shape[dim]
    if not own:
        return tensor.detach().new_zeros([size if each == dim else n for each, n in enumerate(tensor.shape)])
    rows = torch.arange(size, device=tensor.device) % own
    return tensor.detach().index_select(dim, rows).requires_grad_(tensor.requires_grad)


def _resized_everywhere(tensor: torch.Tensor, size: int, other: int) -> torch.Tensor:
    for dim, own in enumerate(tensor.shape):
        tensor = _resized(tensor, dim, other) if own == size else tensor
    return tensor


def _of_tensor(edit: Callable[[torch.Tensor], Any]) -> Callable[[Any], Any]:
    """Return an edit that keeps `requires_grad`, and leaves other values alone."""

    def edited(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        made = edit(value.detach())
        return made.requires_grad_(value.requires_grad and made.is_floating_point())

    return edited


def _changes_of_value(path: str, value: Any, example: Arguments) -> Iterator[Change]:
    """Yield the changes of one value: a tensor, a container or a plain value."""
    if isinstance(value, torch.Tensor):
        yield from _changes_of_tensor(path, value)
    elif value is None:
        for _, tensor in example.tensors()[:1]:
            yield Change("structure", path, "is a tensor, not None", _always(tensor.detach().clone()))
    elif isinstance(value, (list, tuple, dict)) and value:
        yield from _changes_of_container(path, value)
    else:
        for other in _other_values(value):
            yield Change("value", path, f"is {other!r}, not {value!r}", _always(other))


def _changes_of_tensor(path: str, tensor: torch.Tensor) -> Iterator[Change]:
    for dim, size in enumerate(tensor.shape):
        for other in _other_sizes(size):
            words = f"has {other} in dimension {dim}, not {size}"
            yield Change("size", path, words, partial(_resized, dim=dim, size=other))
    for dtype in _FLOATS if tensor.is_floating_point() else () if tensor.is_complex() else _INTEGERS:
        if dtype is not tensor.dtype:
            yield Change(
                "dtype", path, f"is of {dtype}, not {tensor.dtype}", _of_tensor(partial(torch.Tensor.to, dtype=dtype))
            )
    yield Change("structure", path, "is None", _always(None))
    yield Change("tensor", path, "has one dimension more", _of_tensor(lambda each: each.unsqueeze(0)))
    if tensor.dim() and tensor.shape[0]:
        yield Change("tensor", path, "has one dimension less", _of_tensor(lambda each: each[0]))
    for layout in layouts_for(tensor.dim())[1:]:
        change = _of_tensor(partial(_placed, layout=layout))
        yield Change("tensor", path, f"has the layout {layout!r}", change)
    if tensor.is_floating_point():
        yield Change("tensor", path, f"has requires_grad={not tensor.requires_grad}", _with_other_requires_grad)


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def _with_other_requires_grad(value: Any) -> Any:
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.detach().requires_grad_(not value.requires_grad) if is_float else value


def _placed(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    return place(tensor.contiguous(), layout, tensor) if layout in layouts_for(tensor.dim()) else tensor


def _changes_of_container(path: str, value: Any) -> Iterator[Change]:
    if isinstance(value, dict):
        for key in value:
            yield Change("structure", path, f"lacks {key!r}", partial(_without, key=key))
        yield Change("structure", path, "has a key more", lambda each: {**each, "another": None})
        if len(value) > 1:
            yield Change("structure", path, "has its keys reversed", lambda each: dict(reversed(list(each.items()))))
        return
    if not hasattr(value, "_fields"):
        yield Change("structure", path, f"has {len(value) - 1} elements", lambda each: each[:-1])
        yield Change("structure", path, f"has {len(value) + 1} elements", lambda each: each + each[-1:])
    other = tuple if isinstance(value, list) else list
    yield Change("structure", path, f"is a {other.__name__}", other)


def _without(value: dict[Any, Any], key: Any) -> dict[Any, Any]:
    return {each: part for each, part in value.items() if each != key}


def _other_values(value: Any) -> list[Any]:
    """Return other values of the type of a plain value, and values of other types that Python takes in its place."""
    if isinstance(value, bool):
        return [not value, int(value)]
    if isinstance(value, enum.Enum):
        return [each for each in type(value) if each is not value]
    if isinstance(value, int):
        return [value + 1, value - 1, 0, float(value), None]
    if isinstance(value, float):
        return [value + 1, -value, 0.0, int(value), None]
    if isinstance(value, str):
        return [value + "_", "", None]
    if isinstance(value, torch.dtype):
        return [dtype for dtype in _FLOATS if dtype is not value]
    return []


def _changes_of_arguments(model: Any, example: Arguments) -> Iterator[Change]:
    """Yield the changes of the list of arguments: left out, given by name, one tensor in two places."""
    for name in example.kwargs:
        yield Change("argument", CALL, f"leaves out {name}", partial(_left_out, name=name))
    if len(example.args) > 1:
        yield Change("argument", CALL, "leaves out the last positional argument", _left_out)
    with contextlib.suppress(TypeError, ValueError):
        kinds = list(inspect.signature(getattr(model, "forward", model)).parameters.values())
        left = [each for each in kinds[len(example.args) :] if each.default is None and each.name not in example.kwargs]
        for each, (_, tensor) in itertools.product(left, example.tensors()[:1]):
            added = partial(_with_argument, name=each.name, value=tensor.detach().clone())
            yield Change("argument", CALL, f"gives {each.name} a tensor", added)
    tensors = [(i, each) for i, each in enumerate(example.args) if isinstance(each, torch.Tensor)]
    for (i, one), (k, other) in itertools.pairwise(tensors):
        if one.shape == other.shape and one.dtype == other.dtype:
            yield Change("argument", CALL, f"gives input {i} as input {k}, too", partial(_same_tensor, i=i, k=k))


def _left_out(given: Arguments, name: str | None = None) -> Arguments:
    """Leave out an argument by name, or the last positional argument."""
    return Arguments(given.args[:-1] if name is None else given.args, _without(given.kwargs, name))


def _with_argument(given: Arguments, name: str, value: Any) -> Arguments:
    return Arguments(given.args, {**given.kwargs, name: value})


def _same_tensor(given: Arguments, i: int, k: int) -> Arguments:
    return Arguments((*given.args[:k], given.args[i], *given.args[k + 1 :]), given.kwargs)


def _modes(model: Any, example: Arguments) -> Iterator[Change]:
    """Yield the changes of modes; `edit` returns the mode of the model, or a context for both calls."""
    if isinstance(model, nn.Module):
        mode = "eval" if model.training else "train"
        yield Change("mode", MODEL, f"is in {mode} mode", _always(mode))
    device = example.tensors()[0][1].device.type if example.tensors() else "cpu"
    grad = not torch.is_grad_enabled()
    yield Change("mode", CALL, f"has grad mode {'on' if grad else 'off'}", lambda _: torch.set_grad_enabled(grad))
    yield Change("mode", CALL, "is in inference mode", lambda _: torch.inference_mode())
    yield Change("mode", CALL, "is under autocast", lambda _: torch.autocast(device, torch.bfloat16))
    yield Change("mode", CALL, "has float64 by default", lambda _: _double_by_default())


@contextlib.contextmanager
def _double_by_default() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _attributes(model: Any, graph: Any) -> Iterator[Change]:
    """Yield the changes of numbers and flags that the modules of the graph share with modules of the model, or copy.

    Of torch's own modules only the training flag changes: another `hidden_size` of an LSTM reads beyond its memory.
    """
    if not isinstance(model, nn.Module):
        return
    of_model = dict(modules_by_path(model))
    for path, module in modules_by_path(graph):
        for name, value in vars(module).items():
            is_shared = path in of_model and vars(of_model[path]).get(name) is value
            is_own = is_shared and (name == "training" or not type(of_model[path]).__module__.startswith("torch."))
            if is_own and type(value) in (bool, int, float) and not name.startswith("_"):
                other = _other_values(value)[0]
                where = f"{path}.{name}".lstrip(".")
                yield Change("attribute", where, f"is {other!r}, not {value!r}", _always(other))
