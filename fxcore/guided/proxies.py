"""Proxies that know their value in the example.

A proxy for a tensor is a tensor to Python and to torch, without data of its own. A proxy for another value claims the
value's class. Methods and operators on a proxy are recorded. Where Python itself needs a value (`int`, `bool`, `range`,
an index, a loop), it gets the example's value, and the tracer notes a guard.
"""

from __future__ import annotations

import copy
import functools
import inspect
import numbers
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fxcore import torch_fx_registry
from fxcore.errors import TraceError
from fxcore.guards import is_path
from fxcore.guided import indexing
from fxcore.node import Node
from fxcore.operators.syntax import INPLACE_OPERATORS
from fxcore.proxy import Proxy, RecordingProxy, recorded_operator, tracer_of
from fxcore.state.readings import is_array
from fxcore.tracing import call_site
from fxcore.tracing.code_facts import facts_of_code
from fxcore.tracing.text_uses import ASSERTION, MESSAGE, is_percent_format, use_of_text

# Types of values that are never proxies: `is` tells them apart, or C code wants exactly that type.
PLAIN_TYPES: tuple[type, ...] = (type(None), type, torch.layout, torch.memory_format, type(...))
# Types of values that Python gets at once, with a guard, because C code wants exactly these types.
TEXT_TYPES: tuple[type, ...] = (str, bytes)
# Types of values that a copy would not change; all numbers are of such a type.
_UNCHANGEABLE = (numbers.Number, torch.Size, torch.dtype, torch.device)
_SHAPE_OF_ARRAYS = ("shape", "ndim", "size", "dtype", "strides", "itemsize", "nbytes")
# Methods of dicts that do one thing for a key that is there, and another thing for a key that is not.
_ASK_FOR_KEY = ("get", "pop", "setdefault")
_CATCHES_MISSING = frozenset({"AttributeError"})
_MEMORY_OF_ARRAYS = ("__array_struct__", "__array_interface__")


class ExampleProxy(RecordingProxy):
    """A proxy with the value of the example. An attribute gets its node when the node is first needed."""

    __fx_has_example__ = True  # files below ask for this mark
    tracer: Any
    example: Any
    is_data: bool  # whether the contents of input tensors decide about the value
    has_contents: bool  # whether they decide about the contents of the tensor, or of tensors in the container
    other: Any  # the value as it might be with other contents, if they decide about sizes; else None
    is_part: bool = False  # whether the value is an argument of the traced function, or a part of one
    _node: Node | None
    _source: tuple[ExampleProxy, str] | None  # the owner and the name of an attribute

    @property
    def is_of_input(self) -> bool:
        """Whether the contents of input tensors decide about the number that Python would be told."""
        return self.is_data

    @property
    def node(self) -> Node:  # type: ignore[override]  # made late, where a Proxy has a plain attribute
        """The node that computes the value."""
        node = self._node
        if node is None:
            assert self._source is not None
            node = self.__dict__["_node"] = self.tracer.record_without_running(
                "call_function", getattr, self._source, {}
            )
        return node

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if getattr(orig_method, "__name__", "") == "__get__":
            return attribute_of(args[0], orig_method.__self__.__name__)  # type: ignore[attr-defined]  # a getset_descriptor
        tracer: Any = tracer_of(orig_method, args, kwargs or {})
        operation = indexing.OPERATORS.get(orig_method)
        if operation is not None:
            return tracer.create_proxy("call_function", operation, args, {})
        # The parser of torch asks for the index of each number before it finds that the number is a proxy.
        tracer.answers.drop_indices_of_call(sys._getframe(1))
        return super().__torch_function__(orig_method, types, args, kwargs)

    def _note_type(self, frame: FrameType) -> None:
        """Note the type of a part of the inputs, if `frame` is the traced code."""
        if not call_site.is_library_file(frame.f_code.co_filename) and hasattr(self.tracer, "questions"):
            self.tracer.questions.has_type(self)

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Any:
        return attribute_of(self, name)

    def __bool__(self) -> bool:
        is_kept = self.is_of_input or self.tracer.trace_asserts
        if is_kept and call_site.is_assertion(sys._getframe(1), self.node.target):
            # Keep it an assertion, because a run has no other branch.
            self.tracer.create_proxy("call_function", torch._assert, (self, "Assertion failed"), {})
            return True
        if self.is_of_input and self._is_refused_otherwise(sys._getframe(1)):
            return bool(self.example)
        return bool(self.tracer.answers.answer(self, bool, "was asked for its truth"))

    def _is_refused_otherwise(self, frame: FrameType) -> bool:
        """Return whether `frame` raises an error for the other truth alone; the graph asserts this one."""
        raising = call_site.raising_truth(frame, self.node.target)
        if raising is None or bool(self.example) is raising:
            return False
        condition = self if not raising else self.tracer.create_proxy("call_function", operator.not_, (self,), {})
        source = call_site.shown_line(frame.f_code.co_filename, frame.f_lineno, frame.f_globals).partition(": ")[2]
        self.tracer.create_proxy("call_function", torch._assert, (condition, f"refused by the model: {source}"), {})
        return True

    def __int__(self) -> int:
        frame = sys._getframe(1)
        use = use_of_text(frame)
        if use == MESSAGE:
            return int(self.example)
        if use == ASSERTION and type(self.example) is int and is_percent_format(frame):
            return int(self.tracer.messages.number(self))
        return int(self.tracer.answers.answer(self, int, "was turned into an int"))

    def __float__(self) -> float:
        if use_of_text(sys._getframe(1)) == MESSAGE:
            return float(self.example)
        return float(self.tracer.answers.answer(self, float, "was turned into a float"))

    def __complex__(self) -> complex:
        return complex(self.tracer.answers.answer(self, complex, "was turned into a complex number"))

    def __index__(self) -> int:
        self.tracer.follow_indexing(sys._getframe(1))
        return int(self.tracer.answers.answer(self, operator.index, "was used as an index", sys._getframe(1)))

    def __len__(self) -> int:
        length = self.tracer.create_proxy("call_function", len, (self,), {})
        return int(self.tracer.answers.answer(length, int, "was asked for its length"))

    def __iter__(self) -> Iterator[Any]:
        return self._items(call_site.unpacked_length(sys._getframe(1)))

    def __reversed__(self) -> Iterator[Any]:
        return iter(list(self._items(None))[::-1])

    def _items(self, unpacked: int | None) -> Iterator[Any]:
        if isinstance(self.example, dict):
            yield from list(self.keys())
            return
        if not hasattr(self.example, "__getitem__"):
            if self.is_part:
                self.tracer.questions.has_type(self)  # the traced code may catch the error
            raise TypeError(f"{type(self.example).__name__!r} object is not iterable while tracing")
        length = len(self.example)
        # Unpacking into names asks for the length. That of a result follows from the call that made it.
        if unpacked != length or self._length_is_of_input():
            len(self)
        yield from (operator.getitem(self, index) for index in range(length))

    def _length_is_of_input(self) -> bool:
        """Return whether the length of a container is that of an input, or the rank of one."""
        if self.is_part or not isinstance(self.example, torch.Size):
            return self.is_part
        shape: Any = self.node
        if shape.target is operator.getitem:
            key = shape.args[1]
            if isinstance(key, slice) and _has_fixed_length(key):
                return False
            shape = shape.args[0]
        return is_path(shape.args[0] if shape.target == "size" else shape)

    def __contains__(self, item: object) -> bool:
        if isinstance(self.example, (list, tuple)):
            return any(bool(each == item) for each in self._items(None))
        return bool(self.tracer.create_proxy("call_function", operator.contains, (self, item), {}))

    def __setitem__(self, key: Any, value: Any) -> None:
        self.tracer.create_proxy("call_function", operator.setitem, (self, key, value), {})

    def __delitem__(self, key: Any) -> None:
        self.tracer.create_proxy("call_function", operator.delitem, (self, key), {})

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy

        return numpy.asarray(self.tracer.answers.answer(self, lambda value: value, "was given to numpy"), dtype=dtype)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self.tracer.record_numpy(function, "", args, kwargs, None)

    def __array_ufunc__(self, function: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.record_numpy(function, method, args, kwargs, sys._getframe(1))

    def keys(self) -> Any:
        """Return the keys of a dict as they are."""
        keys = self.tracer.create_proxy("call_function", list, (self,), {})
        return dict.fromkeys(self.tracer.answers.answer(keys, list, "was asked for its keys")).keys()


def _has_fixed_length(key: slice) -> bool:
    """Return whether a slice of any shape that is long enough has the same length: `x.shape[-2:]`, `x.shape[:2]`."""
    if key.step is not None:
        return False
    if key.stop is None:
        return isinstance(key.start, int) and key.start < 0
    return isinstance(key.stop, int) and key.stop >= 0 and (key.start is None or key.start >= 0)


def class_of_proxies() -> type:
    """Return a class of proxies of fxcore and, if it is imported, of torch.fx."""
    return _class_of_proxies(torch_fx_registry.proxy_class())


@functools.cache
def _class_of_proxies(of_torch: type | None) -> type:
    return Proxy if of_torch is None else type("Proxy", (of_torch, Proxy), {})


class ExampleTensor(ExampleProxy, torch.Tensor):
    """A proxy for a tensor. It has the example's shape and dtype, and no data. C code that wants data fails."""

    @property  # type: ignore[misc]  # libraries that leave out checks of data for torch.fx leave them out here too
    def __class__(self) -> type:
        """A class of proxies, of fxcore and, if it is imported, of torch.fx. The type itself is a class of tensors.

        Code that reads the attribute gets the class of the value, as `functools.singledispatch` does.
        """
        frame = sys._getframe(1)
        if "__class__" in frame.f_code.co_names and not call_site.is_library_file(frame.f_code.co_filename):
            if self.is_part:
                self.tracer.questions.asked(type, self)
            return type(self.example)
        if self.is_part:
            self._note_type(frame)
        return class_of_proxies()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch's own differs between versions
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = next((each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, cls)), None)
        if function is torch.ops.aten.detach.default and found is not None:
            return found.detach()  # torch.autograd.Variable ends here
        name, place = ("a tensor", "") if found is None else (repr(found.node.name), found.tracer._place())
        raise TraceError(
            f"{function} wants the data of {name}, which is not there while tracing{place}\n"
            "Code in C called it, past everything that can be recorded. Make the function that does so a leaf with "
            "fxcore.wrap(), or the module with leaf_modules="
        )

    @property
    def is_of_input(self) -> bool:
        """Whether the contents of input tensors decide about the number that Python would be told."""
        return self.has_contents

    __repr__ = ExampleProxy.__repr__  # type: ignore[assignment]  # torch's takes options

    def __hash__(self) -> int:
        return id(self)

    def __copy__(self) -> Any:
        return self.tracer.create_proxy("call_function", copy.copy, (self,), {})

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.clone()

    def __format__(self, spec: str) -> str:
        return repr(self)

    @property
    def __cuda_array_interface__(self) -> Any:
        raise AttributeError("a proxy has no data")


class ExampleValue(ExampleProxy):
    """A proxy for a number, a size, a dtype, a container or any other value that is no tensor."""

    @property
    def is_of_input(self) -> bool:
        """Whether the contents of input tensors decide about the value, or about the numbers of an array."""
        return self.is_data or (self.has_contents and is_array(self.example))

    @property  # type: ignore[misc]  # so that isinstance() answers as for the value
    def __class__(self) -> type:
        """The class of the value."""
        if self.is_part:
            self._note_type(sys._getframe(1))
        return type(self.example)

    def __setattr__(self, name: str, value: Any) -> None:
        self._change_attribute(setattr, name, value)

    def __delattr__(self, name: str) -> None:
        self._change_attribute(delattr, name)

    def _change_attribute(self, function: Callable[..., None], *what: Any) -> None:
        """Record that the traced code writes or deletes an attribute of the value. Earlier reads keep their value."""
        for read in self.tracer.unread_attributes.pop(id(self.example), ()):
            self.tracer.answers.dispensable.add(read.node)  # its node is made here
        self.tracer.create_proxy("call_function", function, (self, *what), {})

    def __eq__(self, other: object) -> Any:
        # A cache of the model or of a library, such as functools.lru_cache, keeps the proxy after the trace.
        if self._is_left_over or _is_left_over(other):
            return self is other
        return self.tracer.create_proxy("call_function", operator.eq, (self, other), {})

    @property
    def _is_left_over(self) -> bool:
        if not hasattr(self.tracer, "answers"):
            return True
        return self._node is not None and not self.tracer.inner_graphs.holds(self._node)

    def __hash__(self) -> int:
        return hash(self.tracer.answers.answer(self, lambda value: value, "was hashed"))

    def __str__(self) -> str:
        return self._as_text("{}", sys._getframe(1))

    def __repr__(self) -> str:
        # The traced code writes a tuple of sizes. Everybody else looks at the proxy.
        frame = sys._getframe(1)
        if call_site.is_library_file(frame.f_code.co_filename) or self._is_left_over:
            return ExampleProxy.__repr__(self)
        return self._as_text("{!r}", frame)

    def __format__(self, spec: str) -> str:
        return self._as_text("{:" + spec + "}", sys._getframe(1))

    def _as_text(self, field: str, frame: FrameType) -> str:
        """Return the value as a part of a text. A text that is only for people to read makes no guard."""
        use = use_of_text(frame)
        if use == MESSAGE:
            return field.format(self.example)
        if use == ASSERTION:
            return str(self.tracer.messages.part(self, field))
        return field.format(self.tracer.answers.answer(self, lambda value: value, "was written as text"))

    def __round__(self, digits: int | None = None) -> Any:
        return self.tracer.create_proxy("call_function", round, (self,) if digits is None else (self, digits), {})

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        target, rest = (operator.pow, ()) if modulo is None else (pow, (modulo,))
        return self.tracer.create_proxy("call_function", target, (self, other, *rest), {})

    def __copy__(self) -> Any:
        return self if isinstance(self.example, _UNCHANGEABLE) else self._copied_by(copy.copy)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self if isinstance(self.example, _UNCHANGEABLE) else self._copied_by(copy.deepcopy)

    def _copied_by(self, function: Callable[[Any], Any]) -> Any:
        return self.tracer.create_proxy("call_function", function, (self,), {})

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other


class ExampleSequence(ExampleValue):
    """A proxy that matches the patterns of sequences in a `match` statement."""


class ExampleMapping(ExampleValue):
    """A proxy that matches the patterns of mappings in a `match` statement."""


Sequence.register(ExampleSequence)
Mapping.register(ExampleMapping)


def _class_for(value: Any) -> type[ExampleValue]:
    if isinstance(value, (Sequence, Mapping)) and not isinstance(value, (*TEXT_TYPES, bytearray)):
        return ExampleMapping if isinstance(value, Mapping) else ExampleSequence
    return ExampleValue


VALUE_PROXIES = frozenset({ExampleValue, ExampleSequence, ExampleMapping})


class RecordedMethod:
    """A method of a value that is no tensor. A call of it is recorded."""

    def __init__(self, owner: ExampleProxy, name: str) -> None:
        self._owner, self.__name__ = owner, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        owner, name = self._owner, self.__name__
        if isinstance(owner.example, dict) and name in ("items", "values") and not (args or kwargs):
            pairs = [(key, operator.getitem(owner, key)) for key in owner.keys()]  # noqa: SIM118 - no dict
            return pairs if name == "items" else [value for _, value in pairs]
        if is_array(owner.example):
            return owner.tracer.record_numpy(name, "", (owner, *args), kwargs, None)
        if isinstance(owner.example, dict) and name in _ASK_FOR_KEY and args and not kwargs:
            has_key = args[0] in owner
            if name == "get":
                return operator.getitem(owner, args[0]) if has_key else (*args, None)[1]
        return owner.tracer.create_proxy("call_method", name, (owner, *args), kwargs)


def _is_left_over(value: Any) -> bool:
    # The class of a proxy claims to be that of its value.
    return type(value) in VALUE_PROXIES and bool(value._is_left_over)


def proxy_of(
    tracer: Any, node: Node | None, value: Any, is_data: bool, has_contents: bool, other: Any = None
) -> ExampleProxy:
    """Return a proxy for the value of a node. The flags say how far the contents of input tensors decide about it."""
    proxy: ExampleProxy
    if isinstance(value, torch.Tensor):
        proxy = _without_data(value)
        if isinstance(value, torch.nn.Parameter):
            proxy.__dict__["_is_param"] = True  # isinstance(proxy, nn.Parameter) asks this
    else:
        proxy = object.__new__(_class_for(value))
    facts = {"is_data": is_data, "has_contents": has_contents, "other": other}
    proxy.__dict__.update(tracer=tracer, example=value, _node=node, _source=None, **facts)
    return proxy


def attribute_of(owner: ExampleProxy, name: str) -> Any:
    """Return the value of an attribute of a proxy: a proxy, with a node that is made when it is needed.

    Methods record calls. None, classes and other functions are returned as they are, and strings too, with a guard.
    """
    if name in _MEMORY_OF_ARRAYS:
        raise AttributeError(f"a proxy has no {name}")  # so that numpy asks for `__array__`
    is_part = owner.is_part and isinstance(owner, ExampleValue) and hasattr(owner.tracer, "questions")
    try:
        value = getattr(owner.example, name)
    except AttributeError:
        if is_part and _is_asked_by_traced_code(owner):
            owner.tracer.questions.asked(hasattr, owner, name)
        raise
    if is_part and owner.tracer.questions.catches(_CATCHES_MISSING):
        owner.tracer.questions.asked(hasattr, owner, name)
    if callable(value) and not isinstance(value, (torch.Tensor, type)):
        return RecordedMethod(owner, name) if getattr(value, "__self__", None) is owner.example else value
    if isinstance(value, PLAIN_TYPES) or (is_part and owner.tracer.questions.is_told(value)):
        is_of_state = owner._node is not None and owner._node.op == "get_attr"
        if (owner.is_part or is_of_state) and _is_asked_by_traced_code(owner):
            node = owner.tracer.record_without_running("call_function", getattr, (owner, name), {})
            owner.tracer.answers.note(node, value)
        return value
    is_data, has_contents, other = owner.is_data, owner.has_contents, None
    if is_array(owner.example) and name not in _SHAPE_OF_ARRAYS:
        is_data = is_data or (has_contents and not is_array(value))
    if owner.other is not None:
        other = getattr(owner.other, name, None)
    if isinstance(owner, ExampleTensor) and not isinstance(value, torch.Tensor):
        is_of_other_size = type(value) in (int, torch.Size) and other is not None and value != other
        is_data = has_contents = is_of_other_size and type(value) is int
        other = other if is_of_other_size else None
    proxy = proxy_of(owner.tracer, None, value, is_data, has_contents, other)
    proxy.__dict__["_source"] = (owner, name)
    if is_part:
        proxy = owner.tracer.questions.taken(proxy, name)
    owner.tracer.unread_attributes.setdefault(id(owner.example), []).append(proxy)
    is_told = isinstance(value, TEXT_TYPES) or (isinstance(value, torch.dtype) and _is_compared_by_identity())
    return owner.tracer.answers.answer(proxy, lambda value: value, "was read") if is_told else proxy


def _is_asked_by_traced_code(owner: ExampleProxy) -> bool:
    """Return whether the innermost frame outside of fxcore is not torch's, and the trace still runs."""
    call = call_site.running_call(sys._getframe(1))
    is_ours = call is not None and not call_site.is_library_file(call.frame.f_code.co_filename)
    return is_ours and hasattr(owner.tracer, "questions")


def _is_compared_by_identity() -> bool:
    """Return whether the running code compares a dtype with `is`, at once or on another line."""
    frame = call_site.user_frame()
    if frame is None:
        return False
    constants = facts_of_code(frame.f_code).compared_constants
    return any(isinstance(getattr(torch, str(each), None), torch.dtype) for each in constants)


def _without_data(value: torch.Tensor) -> ExampleTensor:
    make: Callable[..., Any] = torch.Tensor._make_wrapper_subclass
    try:
        return make(  # type: ignore[no-any-return]
            ExampleTensor, value.shape, dtype=value.dtype, device=value.device, requires_grad=value.requires_grad
        )
    except (RuntimeError, TypeError, AttributeError):
        # torch has no such tensor for nested and sparse values and for some dtypes.
        return make(ExampleTensor, ())  # type: ignore[no-any-return]


def _recorded_method(name: str) -> Callable[..., Any]:
    def call(self: ExampleTensor, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", name, (self, *args), kwargs)

    call.__name__ = name
    return call


def _recorded_attribute(name: str) -> property:
    def read(self: ExampleTensor) -> Any:
        return attribute_of(self, name)

    def write(self: ExampleTensor, value: Any) -> None:
        self.tracer.create_proxy("call_function", setattr, (self, name, value), {})

    return property(read, write)


def _operator_in_place(name: str) -> Callable[..., Any]:
    """Return an operator such as `+=`, which changes a list and makes a new number."""
    plain = {"iand": operator.and_, "ior": operator.or_}.get(name) or getattr(operator, name[1:])

    def operate(self: ExampleValue, other: Any) -> Any:
        changes = hasattr(type(self.example), f"__{name}__") and not is_array(self.example)
        function = getattr(operator, name) if changes else plain
        return self.tracer.create_proxy("call_function", function, (self, other), {})

    return operate


def _define_members_of_tensor() -> None:
    """Let every public member of torch.Tensor be recorded. The parser of torch would refuse some proxies."""
    for name in dir(torch.Tensor):
        member = inspect.getattr_static(torch.Tensor, name)
        if name.startswith("_") or isinstance(member, (staticmethod, classmethod)) or name in vars(ExampleTensor):
            continue
        make = _recorded_method if callable(member) else _recorded_attribute
        setattr(ExampleTensor, name, make(name))
    for name in INPLACE_OPERATORS:
        if name != "setitem":
            setattr(ExampleTensor, f"__{name}__", recorded_operator(name))
            setattr(ExampleValue, f"__{name}__", _operator_in_place(name))


_define_members_of_tensor()
