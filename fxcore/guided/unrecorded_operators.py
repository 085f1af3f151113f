"""Operators that run while a trace runs and that no node stands for: of plain tensors, and inside recorded calls.

The traced code computes with plain tensors beside the proxies. A write to the model's state is missing in the graph,
and a value that follows from a parameter, or that a hook or a leaf kept from its run on the example, would become a
constant. Torch's dispatcher shows these operators. The trace then starts again, and records more than before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

from fxcore.errors import TraceError
from fxcore.guided.proxies import ExampleTensor
from fxcore.state.snapshot import Snapshot
from fxcore.state.storage import has_storage, storage_of
from fxcore.state.writes import OperatorMode, written_by
from fxcore.tracing.call_site import user_line

_push: Callable[[Any], None] = torch._C._push_on_torch_dispatch_stack
_pop: Callable[[Any], Any] = torch._C._pop_torch_dispatch_stack
_count: Callable[[], int] = torch._C._len_torch_dispatch_stack
_at: Callable[[int], Any] = torch._C._get_dispatch_stack_at

# Origins of tensors that the traced code has.
_OWN = "own"  # the traced code made the tensor of constants
_OF_STATE = "<state>"  # it follows from a parameter or a buffer
_RANDOM = "<random>"

# Stands for a caller of torch, which keeps no tensor.
WRITING = "<writing>"

# Stands for the storages of all parameters and buffers.
REGISTERED = 0


class TraceAgain(BaseException):
    """Ends a trace, which starts again with other ways. No `except Exception` of the traced code catches it."""


class Ways(NamedTuple):
    """The ways of one trace that an earlier trace of the same root has found to be needed."""

    lifted: set[int]  # storages of state whose tensors are proxies in all calls of torch; maybe REGISTERED
    opened: set[str]  # paths of leaves that are traced through

    def lift(self, storage: int) -> None:
        """Let tensors in a storage be proxies from the start of the next trace, if they are not already."""
        if storage not in self.lifted:
            self.lifted.add(storage)
            raise TraceAgain

    def look_into(self, path: str) -> None:
        """Let the next trace go through a leaf, if this one did not."""
        if path not in self.opened:
            self.opened.add(path)
            raise TraceAgain


class UnrecordedOperators(OperatorMode):  # type: ignore[no-untyped-call]  # torch's
    """Sees these operators in one trace."""

    def __init__(self, snapshot: Snapshot, ways: Ways) -> None:
        super().__init__()
        self._snapshot, self._ways = snapshot, ways
        self._caller = ""  # the path of the leaf, or the name of the function, that runs on the example
        self._origins: dict[int, tuple[Any, str]] = {}  # by storage, with a reference that keeps its address
        self._state: dict[int, str] | None = None
        self._ids: set[int] = set()  # of tensors of the state
        self._tensors_of_state: dict[int, torch.Tensor] = {}  # the first of each storage
        self._read: set[int] = set()  # storages of attributes that were read without a node
        self._typed_by_default: set[int] = set()  # storages of tensors that have the default dtype as their own
        self.is_dtype_given = False  # to the function that makes a tensor now

    @contextmanager
    def active(self) -> Iterator[None]:
        """See the operators of a with block."""
        depth = _count()
        _push(self)
        try:
            yield
        finally:
            while _count() > depth:  # the traced code may have left a mode
                _pop(None)

    def call_unseen(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call of torch that only computes."""
        depth = _count()
        if not depth or _at(depth - 1) is not self:
            return call(*args, **kwargs)
        _pop(None)
        try:
            return call(*args, **kwargs)
        finally:
            _push(self)

    def call_as(self, caller: str, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call that the graph repeats: of a leaf, of a user's function, or of a function that writes."""
        outer, self._caller = self._caller, self._caller or caller
        try:
            return call(*args, **kwargs)
        finally:
            self._caller = outer

    def note_example(self, arguments: Any, caller: str) -> None:
        """Note that a caller gets the example's values of proxies, and may keep them."""
        for leaf in pytree.tree_leaves(arguments):
            if type(leaf) is ExampleTensor:
                self._note_origin(leaf.example, caller)

    def refuse_computed(self, tracer: Any, tensor: torch.Tensor) -> None:
        """Raise TraceError for a constant that was computed from the example or drawn. Trace again if that helps."""
        origin = self._origin_of(tensor)
        if not origin:
            return
        reason, cure = f"the leaf {origin!r} computed it on the example", "Return the tensor from the leaf's forward"
        if origin == _RANDOM:
            reason = "it was drawn while tracing, and each call of the model draws other numbers"
            cure = "Make the module or the tensor in __init__, or draw with the shape and dtype of an input"
        elif origin == _OF_STATE:
            self._ways.lift(REGISTERED)
            reason = "it follows from a parameter or buffer that was read past the attributes of its module"
            cure = "Read the parameter as an attribute of its module"
        elif origin in (tracer.submodule_paths or {}).values():
            self._ways.look_into(origin)
        raise TraceError(
            f"a tensor of shape {list(tensor.shape)} cannot become a constant of the graph: {reason}"
            f"{tracer._place()}\n{cure}, or keep the code that uses it in a leaf (fxcore.wrap, leaf_modules=)"
        )

    def _origin_of(self, tensor: torch.Tensor) -> str:
        """Return "" for a tensor that may be a constant, else an origin, or the leaf that ran on the example."""
        storage = _storage_of(tensor)
        if self._state_at(storage):
            is_part = id(tensor) not in self._ids and self._state_at(storage) != "attribute"
            return _OF_STATE if is_part else ""
        _, origin = self._origins.get(storage, (None, _OWN))
        return "" if origin == _OWN else origin

    def is_typed_by_default(self, tensor: torch.Tensor) -> bool:
        """Return whether the traced code made a tensor of numbers, and left its dtype to the default dtype."""
        return bool(self._typed_by_default) and _storage_of(tensor) in self._typed_by_default

    def is_lifted(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is to be a proxy in all calls of torch."""
        lifted = self._ways.lifted
        if not lifted:
            return False
        storage = _storage_of(tensor)
        return storage in lifted or (REGISTERED in lifted and self._state_at(storage) in ("parameter", "buffer"))

    def tensor_of_state(self, storage: int) -> torch.Tensor | None:
        """Return the first tensor in a storage that the model had before the trace, registered ones first."""
        self._state_at(storage)
        return self._tensors_of_state.get(storage)

    def note_write(self, tensor: torch.Tensor) -> None:
        """Note that a recorded call writes a tensor of the model. An earlier read of it must become a node."""
        storage = _storage_of(tensor)
        if storage in self._read:
            self._ways.lift(storage)

    def run(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator of ATen, and note the origin of its results."""
        for tensor in written_by(operator, args, kwargs):
            self._before_write(tensor)
        if self._caller == WRITING:
            return operator(*args, **kwargs)
        origin = self._caller or self._origin_of_inputs(args, kwargs)
        # A generator that it is given was made by the traced code.
        if origin == _OWN and torch.Tag.nondeterministic_seeded in operator.tags and kwargs.get("generator") is None:
            origin = _RANDOM
        result = operator(*args, **kwargs)
        follows_default = self._follows_default_dtype(operator, args, kwargs)
        for leaf in pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._note_origin(leaf, origin)
                if follows_default and (leaf.is_floating_point() or leaf.is_complex()):
                    self._typed_by_default.add(_storage_of(leaf))
        return result

    def _follows_default_dtype(self, operator: Any, args: Any, kwargs: Any) -> bool:
        """Return whether the default dtype decides about the dtype of a floating result."""
        if operator is torch.ops.aten.lift_fresh.default:  # torch.tensor([0.5])
            return not self.is_dtype_given
        if kwargs.get("dtype") is not None:
            return False
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        given = [each for each in tensors if each.is_floating_point() or each.is_complex()]
        return not given or any(map(self.is_typed_by_default, given))

    def _note_origin(self, tensor: torch.Tensor, origin: str) -> None:
        """Note the origin of a tensor. Constants become something else when something else is written into them."""
        storage = _storage_of(tensor)
        if storage and self._origins.get(storage, (None, _OWN))[1] == _OWN:
            self._origins[storage] = (_reference_to(tensor.untyped_storage()), origin)

    def _before_write(self, tensor: torch.Tensor) -> None:
        storage = _storage_of(tensor)
        if not storage:
            return
        self._snapshot.copy_before_write(tensor)
        kind = "" if self._caller else self._state_at(storage)
        if kind:
            self._ways.lift(storage if kind == "attribute" else REGISTERED)
            raise TraceError(
                f"a {kind} of the model is written at {user_line()}, past everything that can be recorded\n"
                "Write it in the forward with an operation of torch, or keep the code that writes it in a leaf "
                "(fxcore.wrap, leaf_modules=)"
            )

    def _origin_of_inputs(self, args: Any, kwargs: Any) -> str:
        found = _OWN
        for leaf in pytree.tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Tensor) and (storage := _storage_of(leaf)):
                kind = self._state_at(storage)
                if kind == "attribute":
                    self._read.add(storage)
                elif kind:
                    found = _OF_STATE
                elif self._origins.get(storage, (None, _OWN))[1] != _OWN:
                    found = self._origins[storage][1]
        return found

    def _state_at(self, storage: int) -> str:
        """Return the kind of state in a storage: "parameter", "buffer" or "attribute"; "" for no state."""
        if self._state is None:
            self._state = {}
            for tensor in self._snapshot.tensors():
                self._ids.add(id(tensor.tensor))
                if key := _storage_of(tensor.tensor):
                    self._tensors_of_state.setdefault(key, tensor.tensor)
                    self._state.setdefault(key, tensor.kind or "attribute")
        return self._state.get(storage, "")


def _storage_of(tensor: torch.Tensor) -> int:
    """Return the number of a tensor's storage; 0 for a tensor without one, and for a proxy."""
    if type(tensor) is ExampleTensor:
        return 0
    try:
        return storage_of(tensor) if has_storage(tensor) else 0
    except (RuntimeError, NotImplementedError):  # sparse and wrapped tensors have no storage
        return 0


def _reference_to(storage: torch.UntypedStorage) -> Any:
    """Return an object that keeps the address of a storage from other tensors, and not the memory."""
    if storage.device.type == "meta":  # fake tensors have no memory, and torch 2.6 crashes on weak references to them
        return storage
    return StorageWeakRef(storage)  # type: ignore[no-untyped-call]  # torch's
