"""Calls that differ from an example in sizes, dtypes, structure, plain values, modes or attributes.

A graph traced with an example holds for other calls, too: it answers them as the model does, or refuses them.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import inspect
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any, Literal

import pytest
import torch
from torch import nn

import fxcore
from fxcore.state.held_state import modules_by_path
from fxcore.state.snapshot import Snapshot, globals_kept
from pytest_fxgraph.equivalence.check import graph_failure
from pytest_fxgraph.equivalence.inputs import Arguments, copy_arguments, fresh_sample
from pytest_fxgraph.equivalence.mismatch import CheckContext, Mismatch, mismatch_error
from pytest_fxgraph.equivalence.outputs import EXACTLY, OutputComparison
from pytest_fxgraph.equivalence.preparation import follow_mode, set_mode, training_kept
from pytest_fxgraph.equivalence.run import RunFailure, RunResult, RunSettings, run_model
from pytest_fxgraph.equivalence.run_differences import differences_of_runs
from pytest_fxgraph.equivalence.search.judging import quiet
from pytest_fxgraph.equivalence.search.recipe import layouts_for, other_dtypes, place
from pytest_fxgraph.equivalence.state_changes import StateNames
from pytest_fxgraph.equivalence.tolerance import ToleranceRule
from pytest_fxgraph.grouping import grouped

Kind = Literal["size", "tensor", "dtype", "value", "structure", "argument", "mode", "attribute"]

EVERYWHERE = "every input"
MODEL = "the model"
CALL = "the call"


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
    return grouped(found, attrgetter("kind"))


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
    for dtype in other_dtypes(tensor.dtype):
        change = _of_tensor(partial(torch.Tensor.to, dtype=dtype))
        yield Change("dtype", path, f"is of {dtype}, not {tensor.dtype}", change)
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
    return other_dtypes(value) if isinstance(value, torch.dtype) else []


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
    yield Change("mode", CALL, "has float64 by default", _double_by_default)


def _double_by_default(model: Any) -> contextlib.AbstractContextManager[None]:
    torch.set_default_dtype(torch.float64)  # the check of a call restores torch's settings
    return contextlib.nullcontext()


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


# A call that both refuse with an error of their own says little about the graph.
Verdict = Literal["right", "refused", "both raise"]


@dataclasses.dataclass(frozen=True)
class ChangedCall:
    """A call of a model and of its graph that differs from the example."""

    example: Arguments
    changes: tuple[Change, ...] = ()
    seed: int = 0  # of new values between the least and the largest of each tensor; 0 keeps the example's
    grads: bool = False  # compare gradients, too, if the modes of the call record them
    twice: bool = False  # call twice in a row, because the first call may leave state behind

    def __str__(self) -> str:
        facts = [*map(str, self.changes)]
        facts += [f"values of seed {self.seed}"] * bool(self.seed) + ["gradients"] * self.grads + ["twice"] * self.twice
        return "; ".join(facts) or "the example"

    __repr__ = __str__

    def arguments(self) -> Arguments:
        """Make the arguments. A change that does not suit a value which an earlier change replaced does nothing."""
        made = fresh_sample(self.example, self.seed) if self.seed else copy_arguments(self.example).arguments
        edits = [each for each in self.changes if each.kind not in ("mode", "attribute")]

        def edited(path: str, value: Any) -> Any:
            for each in edits:
                if each.where == path or (each.where == EVERYWHERE and isinstance(value, torch.Tensor)):
                    value = each.edit(value)
            return value

        args = tuple([rewritten(value, f"input {index}", edited) for index, value in enumerate(made.args)])
        kwargs = {name: rewritten(value, f"input {name}", edited) for name, value in made.kwargs.items()}
        result = Arguments(args, kwargs)
        for each in edits:
            if each.where == CALL:
                result = each.edit(result)
        return result

    def check(self, model: Any, graph: Any) -> Verdict:
        """Compare graph and model on this call; model, graph and all settings are restored.

        Raises MismatchError if the graph answers otherwise than the model, if it answers a call that the model
        refuses, if it fails with an error that is no FxError, and if a refused call changed something.
        """
        __tracebackhide__ = True
        arguments = self.arguments()
        with globals_kept(), quiet(), self._applied(model, graph):
            snapshot = Snapshot(model, graph)
            names = StateNames(snapshot.state_of(model))
            grads = self.grads and torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
            settings = RunSettings(arguments, names, snapshot, 1 + self.seed, grads, False, self.twice, "same")
            obtained = run_model(graph, graph, settings)
            if isinstance(obtained, RunFailure) and isinstance(obtained.error, fxcore.FxError):
                verdict: Verdict = "refused"
                found = list(_changed_by_refusal(graph, arguments, snapshot, grads))
            else:
                expected = run_model(model, model, settings)
                verdict = "both raise" if isinstance(expected, RunFailure) else "right"
                found = list(_differences(expected, obtained, arguments, grads))
        if found:
            error = mismatch_error(found, CheckContext(), (f"at this call: {self}",))
            raise error from getattr(obtained, "error", None)
        return verdict

    @contextlib.contextmanager
    def _applied(self, model: Any, graph: Any) -> Iterator[None]:
        """Set modes and attributes of the call on model and graph."""
        with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch, training_kept(model, graph):
            for each in self.changes:
                if each.kind == "attribute":
                    path, _, name = each.where.rpartition(".")
                    for owner in dict.fromkeys(root.get_submodule(path) for root in (model, graph)):
                        patch.setattr(owner, name, each.edit(getattr(owner, name)))
                elif each.kind == "mode" and each.where == MODEL:
                    follow_mode(graph, model, set_mode(model, each.edit(model)))
            for each in self.changes:
                if each.kind == "mode" and each.where == CALL:
                    stack.enter_context(each.edit(model))
            yield


def _differences(
    expected: RunResult | RunFailure, obtained: RunResult | RunFailure, arguments: Arguments, grads: bool
) -> Iterator[Mismatch]:
    if isinstance(obtained, RunFailure):
        if not isinstance(expected, RunFailure):
            yield graph_failure(obtained)
        return
    if isinstance(expected, RunFailure):
        if expected.step == "forward":
            yield Mismatch("error", "eager", f"{expected}; the graph answered")
        return
    second = obtained.second_output
    if second is not None and isinstance(second.error, fxcore.FxError):
        obtained = dataclasses.replace(obtained, second_output=None)
    comparison = OutputComparison(ToleranceRule(), requires_grad=grads)
    yield from differences_of_runs(expected, obtained, arguments, comparison, loosely=False)


def _changed_by_refusal(graph: Any, arguments: Arguments, snapshot: Snapshot, grads: bool) -> Iterator[Mismatch]:
    """Call a graph that refuses once more, and yield what the refused call changed."""
    copied = copy_arguments(arguments, with_gradients=grads).arguments
    with contextlib.suppress(fxcore.FxError):
        graph(*copied.args, **copied.kwargs)
    findings = snapshot.compare()
    snapshot.restore(findings)
    if findings.changed or not findings.containers_unchanged:
        yield Mismatch("state", "the state of the graph", "was changed by a call that the graph refused")
    for (where, given), (_, left) in zip(arguments.named(), copied.named(), strict=True):
        for each in EXACTLY.compare(given, left, where):
            yield Mismatch("mutation", each.where, "was changed by a call that the graph refused")
