"""The inputs that a call depends on: tensors are followed from the inputs to the results and writes of the call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import fxcore
from fxcore.codegen.codegen import CodeGen
from fxcore.state.held_state import HeldState
from fxcore.state.storage import has_storage, storage_of
from fxcore.state.writes import written_by
from pytest_fxgraph.captures.tracing import trace
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.nested_values import tensors_in
from pytest_fxgraph.equivalence.run import RunFailure, RunSettings, run_model

# Facts that every graph fixes: asking for them does not read the input. A size is read, because few graphs fix sizes.
_FACTS = frozenset(
    (
        *("dtype", "device", "layout", "dim", "ndim", "ndimension", "requires_grad", "grad", "grad_fn"),
        *("type", "names", "element_size", "itemsize", "get_device", "output_nr", "retains_grad", "_version", "_base"),
        *("qscheme", "data_ptr", "requires_grad_", "__class__", "__dict__", "__hash__", "__setitem__", "__set__"),
    )
)
_VALUE_QUESTIONS = ("is_nonzero", "is_same_size", "is_set_to")


class InputUse:
    """Follows the tensors of one call: by input, the operator that read it first, if anything depends on that."""

    def __init__(self, root: object) -> None:
        self.used: dict[str, str] = {}
        self._root = root
        self._first: dict[str, str] = {}
        self._labels: dict[tuple[str, int], set[str]] = {}
        self._outside: set[tuple[str, int]] = set()  # tensors from before the call
        self._alive: list[torch.Tensor] = []  # so that no other tensor gets the place of one that was followed
        self._is_done = False

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function and follow its inputs; a second call is not followed."""
        if self._is_done:
            return function(*args, **kwargs)
        for path, tensor in Arguments(args, kwargs).tensors():
            self._mark(tensor, {path})
        self._outside = {*self._labels, *(_key(state.tensor) for state in HeldState(self._root).tensors)}
        with _FunctionMode(self), _DispatchMode(self):
            output = function(*args, **kwargs)
        self._is_done = True
        for _, tensor in tensors_in(output, ""):
            self._note_use(self.labels((tensor,)))
        self._alive.clear()
        return output

    def labels(self, values: object) -> set[str]:
        """Return the inputs that some values depend on."""
        known = (self._labels.get(_key(tensor), ()) for _, tensor in tensors_in(values, ""))
        return {label for labels in known for label in labels}

    def operator_ran(self, name: str, labels: set[str], results: object = (), written: object = ()) -> None:
        """Note that an operator read values that depend on some inputs; its results depend on these inputs.

        Without tensors among its results, a number, a size or another value was read.
        """
        for label in labels:
            self._first.setdefault(label, name)
        tensors = tensors_in((results, written), "")
        for _, tensor in tensors:
            self._mark(tensor, labels)
        if not tensors or any(_key(tensor) in self._outside for _, tensor in tensors_in(written, "")):
            self._note_use(labels)

    def _mark(self, tensor: torch.Tensor, labels: set[str]) -> None:
        self._labels.setdefault(_key(tensor), set()).update(labels)
        self._alive.append(tensor)

    def _note_use(self, labels: set[str]) -> None:
        for label in labels:
            self.used[label] = self._first.get(label, "return")


def _key(tensor: torch.Tensor) -> tuple[str, int]:
    return ("storage", storage_of(tensor)) if has_storage(tensor) else ("tensor", id(tensor))


class _DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves these without types
    """Sees every operator, also of scripted code and inside of functions of torch."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise torch wraps the method below in one that imports Dynamo. The import takes longer than the check.
        return False

    def __init__(self, use: InputUse) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._use = use

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        with torch._C.DisableTorchFunction():  # the questions here are not the model's
            labels = self._use.labels((args, kwargs))
            result = func(*args, **kwargs)
            if labels:
                name = str(func._schema.name).rpartition("::")[2]
                self._use.operator_ran(name, labels, result, written_by(func, args, kwargs))
        return result


class _FunctionMode(TorchFunctionMode):
    """Sees the reads of a tensor without an operator: sizes, arrays of numpy, texts."""

    def __init__(self, use: InputUse) -> None:
        super().__init__()
        self._use = use

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        labels = self._use.labels((args, kwargs))
        result = func(*args, **kwargs)
        name = _name_of(func)
        is_question = name.startswith(("is_", "has_")) and name not in _VALUE_QUESTIONS
        if labels and name not in _FACTS and not is_question and not tensors_in(result, ""):
            self._use.operator_ran(name, labels)
        return result


def _name_of(func: Callable[..., Any]) -> str:
    name = str(getattr(func, "__name__", func))
    return str(getattr(getattr(func, "__self__", None), "__name__", name)) if name == "__get__" else name


def inputs_used(call: Callable[..., Any], root: object, settings: RunSettings) -> Mapping[str, str] | None:
    """Map each tensor that a call depends on to the operator that read it first; None if it cannot be followed."""
    use = InputUse(root)
    result = run_model(lambda *args, **kwargs: use.call(call, args, kwargs), root, settings)
    return None if isinstance(result, RunFailure) else use.used


def unread_inputs(model: Any, graph: Any, call: Callable[..., Any], settings: RunSettings) -> Iterator[Mismatch]:
    """Yield a mismatch for each input that eager's results depend on and no result of the graph depends on.

    One run of eager and one of the graph follow the tensors. For other inputs, a trace of the model shows the inputs
    that it reads. If neither is possible, there is no mismatch.
    """
    in_eager = inputs_used(model, model, settings)
    in_graph = inputs_used(call, graph, settings) if in_eager else None
    if in_eager and in_graph is not None:
        for path, _ in settings.arguments.tensors():
            if path in in_eager and path not in in_graph:
                words = f"is read by eager ({in_eager[path]}), and nothing in the graph depends on it"
                yield Mismatch("input", path, words)
    yield from _unread_values(model, graph, settings.arguments)


def _unread_values(model: Any, graph: Any, arguments: Arguments) -> Iterator[Mismatch]:
    """Yield a mismatch for each input without tensors that a trace of the model reads and the graph does not."""
    in_graph = _placeholders(graph)
    keys = [_nth(in_graph, index) for index in range(len(arguments.args))] + list(arguments.kwargs)
    names = {path: key for key, (path, value) in zip(keys, arguments.named(), strict=True) if not tensors_in(value, "")}
    candidates = {path: name for path, name in names.items() if in_graph.get(name) is False}
    if not candidates:
        return
    with contextlib.suppress(Exception):  # a model that does not trace gives no answer
        in_eager = _placeholders(trace(model))
        for path, name in candidates.items():
            if in_eager.get(name):
                yield Mismatch("input", path, "is read by eager, and nothing in the graph depends on it")


def _placeholders(graph_module: Any) -> dict[str | None, bool]:
    """Map the placeholders of a graph to whether its results depend on them; empty if the graph has its own codegen."""
    if not isinstance(graph_module, fxcore.GraphModule) or type(graph_module.graph._codegen) is not CodeGen:
        return {}
    nodes = list(graph_module.graph.nodes)
    live: set[fxcore.Node] = set()
    for node in reversed(nodes):
        if node in live or node.op == "output" or node.is_impure():
            live.update(node.all_input_nodes)
    return {str(node.target): node in live for node in nodes if node.op == "placeholder"}


def _nth(placeholders: Mapping[str | None, bool], index: int) -> str | None:
    names = list(placeholders)
    is_plain = index < len(names) and not any(str(name).startswith("*") for name in names[: index + 1])
    return names[index] if is_plain else None
