"""The tensors of every value of a graph: shape, strides, dtype and storage, without the tensors themselves."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

from fxcore.errors import InterpreterError
from fxcore.graph import Graph
from fxcore.interpreter import Interpreter
from fxcore.node import Node
from fxcore.node_data.arguments import map_aggregate, map_values
from fxcore.passes.tools_common import CALLABLE_NODE_OPS
from fxcore.state.packed_parameters import packed_tensors
from fxcore.state.storage import wrapped_tensors
from fxcore.state.writes import OperatorMode
from fxcore.transforms.analysis.operator_names import formula_name, formula_name_of_operator
from fxcore.uninitialized import refuse_uninitialized

Propagation = Literal["meta", "fake", "real"]


class TensorSpec(NamedTuple):
    """A tensor's facts for analyses. Equal `storage` means shared memory."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    storage: int
    storage_bytes: int
    held_bytes: int | None = None  # of a tensor that wraps others, as quantized weights do

    @property
    def numel(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of distinct elements: an expanded element is in memory once."""
        if self.held_bytes is not None:
            return self.held_bytes
        if not self.stride:
            return self.numel * self.dtype.itemsize
        distinct = prod(size for size, step in zip(self.shape, self.stride, strict=True) if step or not size)
        return distinct * self.dtype.itemsize


class OperatorCall(NamedTuple):
    """One call of an operator, with a TensorSpec in place of each tensor."""

    name: str  # as formulas know it
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any
    module: nn.Module | None = None  # the called module


@dataclass
class GraphValues:
    """The values of one run of a graph, node by node."""

    graph: Graph
    modules: Mapping[str, nn.Module]
    results: dict[Node, Any] = field(default_factory=dict)  # structures with a TensorSpec for each tensor
    # The calls inside a node without a formula.
    inner_calls: dict[Node, list[OperatorCall]] = field(default_factory=dict)
    state_storages: set[int] = field(default_factory=set)  # of parameters, buffers and constants
    state_specs: dict[int, TensorSpec] = field(default_factory=dict)  # by id of the real parameter or buffer
    packed_specs: dict[int, list[TensorSpec]] = field(default_factory=dict)  # of packed parameters, by id of the module

    def tensors(self, node: Node) -> list[TensorSpec]:
        """Return the tensors that a node gives, however nested."""
        return tensors_in(self.results.get(node))

    def call(self, node: Node) -> OperatorCall:
        """Return the call of a node, with specs for its arguments."""
        args, kwargs = (map_values(part, self.results.get) for part in (node.args, node.kwargs))
        module = self.modules.get(node.target) if node.op == "call_module" else None
        return OperatorCall(formula_name(node, module), args, kwargs, self.results.get(node), module)


def tensors_in(value: Any) -> list[TensorSpec]:
    """Return the tensors of a structure in order."""
    if isinstance(value, TensorSpec):
        return [value]
    if isinstance(value, (tuple, list)):
        return [spec for each in value for spec in tensors_in(each)]
    if isinstance(value, Mapping):
        return [spec for each in value.values() for spec in tensors_in(each)]
    return []


def propagate(
    module: nn.Module, *args: Any, propagation: Propagation = "meta", knows: Callable[[str], bool] = lambda name: True
) -> GraphValues:
    """Run a graph module once on copies of its state and inputs, and describe the value of every node.

    "meta" runs on the meta device and "fake" on fake tensors, which know their devices; both compute nothing. "real"
    computes, for graphs with shapes that depend on values. The module, the inputs and the random generators stay as
    they are. The calls inside a node are kept too if `knows` denies its operator. Raises InterpreterError (a
    RuntimeError) if the graph does not run, ValueError for another `propagation`.
    """
    if propagation not in get_args(Propagation):
        raise ValueError(f"propagation={propagation!r} is not known; use one of {', '.join(get_args(Propagation))}")
    refuse_uninitialized(module, "", "cannot find the shapes of", InterpreterError)
    mode, copied, arguments = _copies(module, args, propagation)
    recorder = _Recorder(copied, module.graph, dict(module.named_modules()), knows)  # type: ignore[arg-type]  # a graph
    with _deterministic(), mode:
        try:
            recorder.run(*arguments)
        except Exception as error:
            remedy = "" if propagation == "real" else '; where shapes depend on values, use propagation="real"'
            place = f" at node {recorder.current.name!r}" if recorder.current is not None else ""
            reason = str(error).partition("\n")[0]
            raise InterpreterError(
                f"cannot find the shapes of the graph{place}: {type(error).__name__}: {reason}{remedy}"
            ) from error
    recorder.describe_state(module, copied)
    return recorder.values


def example_arguments(graph: Graph) -> tuple[torch.Tensor | Any, ...] | None:
    """Make arguments on the meta device from the metadata of placeholders; None if a placeholder has no metadata.

    The metadata is "val", "example_value" of Dynamo, or "tensor_meta". An unknown size gets its value in the example of
    the capture.
    """
    found = []
    for node in graph.find_nodes(op="placeholder"):
        kinds = (node.meta.get(kind) for kind in ("val", "example_value", "tensor_meta"))
        noted = next((each for each in kinds if each is not None), None)
        if noted is None:
            return None
        found.append(_example(noted))
    return tuple(found)


def concrete(size: Any) -> int:
    """Return a size as a number; for a symbolic size, its value in the capture. Raises ValueError without a value."""
    if isinstance(size, int):
        return size
    hint = getattr(size.node, "hint", None)
    if hint is None:
        raise ValueError(f"the size {size} is not known before the model runs; give example inputs")
    return int(hint)


def _example(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor) or type(leaf).__name__ == "TensorMetadata":
        stride = leaf.stride() if isinstance(leaf, torch.Tensor) else leaf.stride
        sizes, steps = ([concrete(size) for size in numbers] for numbers in (leaf.shape, stride))
        if not steps:
            return torch.empty(sizes, dtype=leaf.dtype, device="meta")
        return torch.empty_strided(sizes, steps, dtype=leaf.dtype, device="meta")
    if isinstance(leaf, (tuple, list)):
        return type(leaf)(map(_example, leaf))
    return concrete(leaf) if isinstance(leaf, torch.SymInt) else leaf


def _copies(
    module: nn.Module, args: tuple[Any, ...], propagation: Propagation
) -> tuple[AbstractContextManager[Any], nn.Module, tuple[Any, ...]]:
    """Copy a module and its arguments in the form that is run; return the mode to run in, too."""
    state = [*module.parameters(), *module.buffers()]
    tensors = [*state, *(leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor))]
    mode: Any = nullcontext()
    if propagation == "fake":
        # Imported here, because the import loads a large part of the compiler.
        from torch._subclasses.fake_tensor import FakeTensorMode

        mode = FakeTensorMode(allow_non_fake_inputs=True)

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        detached = tensor.detach()
        if propagation == "meta":
            made = detached.to("meta")
        elif propagation == "real":
            made = detached.clone()
        elif tensor.is_meta:  # made from metadata: put it on the device of the parameters
            with mode:
                device = state[0].device if state else torch.device("cpu")
                made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
        else:
            made = mode.from_tensor(detached, static_shapes=True)
        return nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else made

    done: dict[int, Any] = {id(tensor): copied(tensor) for tensor in tensors}
    with torch.no_grad():
        copies: tuple[nn.Module, tuple[Any, ...]] = copy.deepcopy((_without_graph(module), args), done)
    return mode, *copies


def _without_graph(module: nn.Module) -> nn.Module:
    """Return a module with the parameters, buffers, modules and attributes that a graph reads, and no graph to copy."""
    holder = nn.Module()
    for name in ("_parameters", "_buffers", "_modules", "training"):
        holder.__dict__[name] = module.__dict__[name]
    for node in module.graph.find_nodes(op="get_attr"):  # type: ignore[union-attr, operator]  # a graph module's
        name = str(node.target).partition(".")[0]
        if name in module.__dict__:
            holder.__dict__[name] = module.__dict__[name]
    return holder


@contextmanager
def _deterministic() -> Iterator[None]:
    """Keep the generators as they are, and run attention as written, not by the kernel of this machine."""
    mha = torch.backends.mha
    fast = mha.get_fastpath_enabled()
    mha.set_fastpath_enabled(False)
    try:
        with torch.random.fork_rng(), torch.no_grad():
            yield
    finally:
        mha.set_fastpath_enabled(fast)


class _Recorder(Interpreter):
    """Runs a copy of a module, and notes the values on the original's nodes."""

    def __init__(
        self, copied: nn.Module, graph: Graph, modules: Mapping[str, nn.Module], knows: Callable[[str], bool]
    ) -> None:
        super().__init__(copied, graph=graph)
        self.extra_traceback = False
        self.values = GraphValues(graph, modules)
        self.current: Node | None = None
        self._knows = knows
        # A freed storage keeps its number as long as a weak reference to it exists.
        self._storages: dict[int, tuple[int, StorageWeakRef]] = {}
        self._numbers = itertools.count()

    def run_node(self, n: Node) -> Any:
        self.current = n
        called = self.values.modules.get(n.target) if n.op == "call_module" else None
        if n.op == "call_function" and getattr(n.target, "namespace", None) == "c10d":
            result = _exchanged(n.target, self.fetch_args_kwargs_from_env(n)[0])
        elif n.op in CALLABLE_NODE_OPS and not self._knows(formula_name(n, called)):
            calls = self.values.inner_calls[n] = []
            with _CallRecorder(self.spec, calls):
                result = super().run_node(n)
        else:
            result = super().run_node(n)
        self.values.results[n] = described = self.described(result)
        if n.op == "get_attr":
            self.values.state_storages.update(spec.storage for spec in tensors_in(described))
        return result

    def described(self, value: Any) -> Any:
        """Return a structure with a spec in place of each tensor."""
        return map_aggregate(value, lambda leaf: self.spec(leaf) if isinstance(leaf, torch.Tensor) else leaf)

    def spec(self, tensor: torch.Tensor) -> TensorSpec:
        """Describe a tensor."""
        shape = tuple(map(concrete, tensor.shape))
        if parts := wrapped_tensors(tensor):
            specs = [self.spec(part) for part in parts.values()]
            held = sum(spec.nbytes for spec in specs)
            return TensorSpec(shape, (), tensor.dtype, specs[0].storage, held, held)
        try:
            storage = tensor.untyped_storage()
            reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]  # of torch
            number, _ = self._storages.setdefault(reference.cdata, (next(self._numbers), reference))
            stride = tuple(map(concrete, tensor.stride()))
            return TensorSpec(shape, stride, tensor.dtype, number, concrete(storage.nbytes()))
        except (NotImplementedError, RuntimeError):  # sparse and other layouts have no storage
            return TensorSpec(shape, (), tensor.dtype, next(self._numbers), prod(shape) * tensor.dtype.itemsize)

    def describe_state(self, module: nn.Module, copied: nn.Module) -> None:
        """Note the storages of parameters and buffers. They are no activations."""
        for original, duplicate in zip(_state_of(module), _state_of(copied), strict=True):
            spec = self.spec(duplicate)
            self.values.state_specs[id(original)] = spec
            self.values.state_storages.add(spec.storage)
        for part in module.modules():
            self.values.packed_specs.update({id(part): [self.spec(tensor) for _, tensor in packed_tensors(part)]})


def _exchanged(operator: Any, args: tuple[Any, ...]) -> Any:
    """Return the result of a collective without calling it, because its group may be gone.

    An operator of c10d writes its first argument. It returns this argument, and an object to wait for.
    """
    results = [None if str(each.type).endswith(".Work") else args[0] for each in operator._schema.returns]
    return results[0] if len(results) == 1 else tuple(results)


def _state_of(module: nn.Module) -> list[torch.Tensor]:
    return [tensor for part in module.modules() for tensor in (*part._parameters.values(), *part._buffers.values())
            if tensor is not None]  # fmt: skip


class _CallRecorder(OperatorMode):  # type: ignore[no-untyped-call]  # torch's
    """Keeps the operators that run below autograd."""

    def __init__(self, describe: Callable[[torch.Tensor], TensorSpec], calls: list[OperatorCall]) -> None:
        super().__init__()
        self._describe, self._calls = describe, calls

    def run(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator, and keep its call."""
        result = super().run(operator, args, kwargs)
        parts = [pytree.tree_map_only(torch.Tensor, self._describe, part) for part in (args, kwargs, result)]
        self._calls.append(OperatorCall(formula_name_of_operator(operator), *parts))
        return result
