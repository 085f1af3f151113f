"""Questions of the traced code about the structure of inputs: presence, type, identity. Each answer becomes a guard.

A part of the inputs is an argument, an item or attribute of an argument, and so on. Python has no protocol for
`mask is None` and `key is query`. The code of the traced functions tells whether they ask. Python has no protocol for
`type()` either, nor for `isinstance` where the class of a proxy answers by itself. While a trace with an example runs,
`type`, `isinstance`, `hasattr` and `len` have another meaning in the modules of the traced code.
"""

from __future__ import annotations

import enum
import functools
import inspect
import operator
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any

import torch

from fxcore.guided.proxies import (
    ExampleMapping,
    ExampleProxy,
    ExampleSequence,
    ExampleTensor,
    ExampleValue,
    class_of_proxies,
)
from fxcore.tracing import module_hooks
from fxcore.tracing.call_site import is_library_file, unpacked_length, user_frame
from fxcore.tracing.code_facts import (
    CodeFacts,
    Reached,
    Uses,
    facts_of_code,
    is_placed,
    parameters_of,
    stored_names,
    uses_at,
    uses_of,
)
from fxcore.tracing.patching import Patcher, Replacement
from fxcore.tracing.wrap import handled_by

_READS = ("get", "pop", "copy", "setdefault", "_asdict", "_replace")  # methods of containers that give parts
_KEEPS = frozenset(
    ["[]", "dict", "setattr", ".add", ".append", ".appendleft", ".extend", ".insert", ".setdefault", ".update"]
)
_JOINS = (operator.add, operator.iadd, operator.mul, operator.or_, operator.ior)  # containers from containers
_STARRED = ""  # stands for arguments that `*args` and `**kwargs` take
_SINGLETONS = (bool, enum.Enum)
_CATCHES_MISSING = frozenset({"KeyError", "IndexError", "LookupError", "Exception"})


def is_part_of_input(kind: str, target: Any, args: tuple[Any, ...]) -> bool:
    """Return whether a recorded call gives a part of the inputs."""
    if kind == "placeholder":
        return True
    if target in _JOINS:
        return any(isinstance(each, (ExampleMapping, ExampleSequence)) and each.is_part for each in args)
    if not args or not isinstance(args[0], ExampleValue) or not args[0].is_part:
        return False
    return target in (operator.getitem, getattr) or (kind == "call_method" and target in _READS)


def patch_functions(patcher: Patcher, questions: InputQuestions, functions: Iterable[Reached]) -> None:
    """Let functions note their arguments if a comparison with None may get a parameter."""
    for function, holder, name in functions:
        if holder is None or name == "forward":  # a forward is called by its module, where `passed_to` sees it
            continue
        if any(questions.may_compare(function, each) for each in (*parameters_of(function.__code__), _STARRED)):
            patcher.replace_all(holder, {name: _noting(function)})


def _called(tracer: Any, function: FunctionType, *args: Any, **kwargs: Any) -> Any:
    tracer.questions.passed_to(function, args, kwargs)
    return function(*args, **kwargs)


_noting = functools.lru_cache(maxsize=4096)(handled_by(_called))


class InputQuestions:
    """The questions of one trace about the structure of its inputs."""

    def __init__(self, tracer: Any, root: FunctionType, reached: Sequence[Reached]) -> None:
        """`root` is the traced function, `reached` are the functions that it may call."""
        self._tracer, self._root, self.root_code = tracer, root, root.__code__
        self._root_facts = facts_of_code(root.__code__)
        functions: list[Any] = [root, *(each.function for each in reached)]  # mypy takes them for methods
        named = {each: facts_of_code(each.__code__) for each in functions}
        self._facts = facts = functools.reduce(CodeFacts.joined, named.values())
        # The trace does not see the arguments of static methods, decorated functions and functions in containers.
        seen = {root, *(each.function for each in reached if each.holder is not None)}
        unseen = [each for each in functions if each not in seen and each.__name__ != "forward"]
        self._unseen = {each.__name__ for each in unseen if named[each].compared_with_none}
        compared = [of.compared_with_none.difference(parameters_of(each.__code__)) for each, of in named.items()]
        self._compares_locals = bool(self._unseen) or any(compared) or facts.compares_results  # with None
        self._tensors: list[ExampleTensor] = []
        self._has_none = False
        self._given: dict[int, ExampleProxy] = {}  # alive, because an identity must not be used again
        self.code_runs = False  # whether the traced code runs; before, the running code is that of the caller
        self._compares_dtypes = any(
            isinstance(getattr(torch, str(name), None), torch.dtype) for name in facts.compared_constants
        )

    def is_told(self, value: Any) -> bool:
        """Return whether Python gets a part itself, with a guard, because `is` tells it apart from others."""
        return isinstance(value, _SINGLETONS) or (self._compares_dtypes and isinstance(value, torch.dtype))

    def taken(self, proxy: ExampleProxy, name: Any, owner: ExampleProxy | None = None) -> ExampleProxy:
        """Note the questions about a new part that its code cannot be seen to ask; return the proxy that stands for it.

        `name` is the name of the argument or attribute, or the key of an item of the container `owner`. The same
        tensor given twice is one object where the traced code compares objects.
        """
        proxy.__dict__["is_part"] = True
        if self._is_compared_with_none(name, proxy.node.op == "placeholder", owner is not None):
            self.given(proxy)
        if self._facts.has_patterns:
            self.has_type(proxy)
        if owner is not None and self.catches(_CATCHES_MISSING):
            self.asked(operator.contains, owner, name) if isinstance(owner, ExampleMapping) else self.asked(len, owner)
        if self._facts.compares_values and isinstance(proxy, ExampleTensor):
            for other in self._tensors:
                self._note(operator.is_, (proxy.node, other.node), proxy.example is other.example)
                if proxy.example is other.example:
                    return other
            self._tensors.append(proxy)
            if self._has_none:
                self.given(proxy)
        return proxy

    def told_none(self) -> None:
        """Note that a part is None: where the code compares values, each tensor may be compared with None."""
        self._has_none = True
        for each in self._tensors:
            self.given(each)

    def missed(self, owner: Any, key: Any) -> bool:
        """Note that a part has no item at a key, because the traced code may catch the error; return whether it can."""
        if type(owner) not in (ExampleMapping, ExampleSequence) or not owner.is_part:
            return False
        if isinstance(owner, ExampleMapping):
            self.asked(operator.contains, owner, key)
        else:
            self.has_type(owner)
            self.asked(len, owner)
        return True

    def passed_to(self, function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note which arguments of a call are given, if the function may compare them with None."""
        code = function.__code__
        names = [*code.co_varnames[: code.co_argcount], *[_STARRED] * len(args)]
        for name, value in [*zip(names, args, strict=False), *kwargs.items()]:
            if isinstance(value, ExampleProxy) and value.is_part and self.may_compare(function, name):
                self.given(value)

    def may_compare(self, function: FunctionType, name: str) -> bool:
        """Return whether a function, or code that it hands a parameter on to, may compare the parameter with None."""
        code = function.__code__
        facts = facts_of_code(code)
        if name not in parameters_of(code):
            has_more = bool(code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS))
            return has_more and (bool(facts.compared_with_none) or facts.compares_results)
        return name in facts.compared_with_none or self._reaches_comparison(
            uses_of(code, name), code, function.__globals__
        )

    def given(self, proxy: ExampleProxy) -> None:
        """Note that a part is not None."""
        if id(proxy) not in self._given:
            self._given[id(proxy)] = proxy
            self._note(operator.is_not, (proxy.node, None), True)

    def has_type(self, proxy: ExampleProxy) -> None:
        """Note the type of a part; for a tensor, that it is one."""
        if isinstance(proxy, ExampleTensor):
            self._note(isinstance, (proxy.node, torch.Tensor), True)
        else:
            self._note(type, (proxy.node,), type(proxy.example))

    def asked(self, function: Callable[..., Any], proxy: ExampleProxy, *args: Any) -> None:
        """Note what `function` says about the example's value: `isinstance`, `hasattr` and others."""
        self._note(function, (proxy.node, *args), function(proxy.example, *args))

    def catches(self, errors: frozenset[str]) -> bool:
        """Return whether the running code names one of these errors."""
        frame = user_frame() if self.code_runs else None
        return frame is not None and not errors.isdisjoint(facts_of_code(frame.f_code).names)

    def _is_compared_with_none(self, name: Any, is_argument: bool, is_item: bool) -> bool:
        if is_argument:
            return name in parameters_of(self.root_code) and self.may_compare(self._root, name)
        if not self.code_runs:  # an item of `*args` or `**kwargs`, whose name in the code is not known
            return bool(self._root_facts.compared_with_none)
        frame = user_frame()
        if frame is None:
            return False
        code, at = frame.f_code, frame.f_lasti
        compared = facts_of_code(code).compared_with_none
        if isinstance(name, (str, int)) and name in compared:
            return True
        stored = stored_names(code, at)
        is_unpacked = unpacked_length(frame) == len(stored) and isinstance(name, int)
        if is_unpacked:
            stored = stored[name : name + 1]
        if not compared.isdisjoint(stored):
            return True
        # Nothing tells which variable gets an item of `d.values()`, `enumerate(items)` or another call.
        is_lost = self._compares_locals and is_item and not is_placed(code, at)
        uses = uses_of(code, stored[0]) if is_unpacked else uses_at(code, at)
        return is_lost or self._reaches_comparison(uses, code, frame.f_globals)

    def _reaches_comparison(self, uses: Uses, code: CodeType, names: dict[str, Any]) -> bool:
        """Return whether a comparison with None may get a value that `code` uses; `names` are the globals of `code`."""
        if uses.is_compared:
            return True
        return self._compares_locals and (
            uses.is_handed_on
            or (uses.is_returned and code is not self.root_code)  # no traced code gets an output of the traced function
            or not self._facts.compared_with_none.isdisjoint(uses.attributes)
            or any(self._keeps(name, code, names) for name in uses.called)
        )

    def _keeps(self, name: str, code: CodeType, names: dict[str, Any]) -> bool:
        """Return whether the function of this name may keep its arguments, or ask about the arguments unseen."""
        if name in _KEEPS or name.lstrip(".") in self._unseen:
            return True
        if name in code.co_varnames or name in code.co_freevars or name in code.co_cellvars:
            return True
        called = names.get(name, len)  # a function of Python's own keeps nothing
        if isinstance(called, (FunctionType, BuiltinFunctionType)):
            return called.__name__ in self._unseen
        return str(getattr(called, "__module__", "")).partition(".")[0] != "torch"

    def _note(self, function: Callable[..., Any], args: tuple[Any, ...], answer: Any) -> None:
        # A function of a higher-order operator may ask about an input of the traced function.
        with self._tracer.inner_graphs.recording_in(args[0].graph):
            node = self._tracer.create_node("call_function", function, args, {})
        self._tracer.answers.scalars.add(node)
        self._tracer.answers.note(node, answer)


# Types.


def patch_types(patcher: Patcher, names: dict[str, Any]) -> None:
    """Let these functions answer for the values of proxies in modules with these globals, but for torch's and ours."""
    if str(names.get("__name__")).partition(".")[0] not in ("torch", "fxcore"):
        # A module may have functions of its own with these names.
        ours = {name: each for name, each in _REPLACEMENTS.items() if names.get(name, each) is each}
        patcher.replace_all(names, ours)


def _asked(function: Any, value: Any, *args: Any) -> Any:
    """Return the answer of a function about a value. Note it if the value is a part of the inputs."""
    if not (isinstance(value, ExampleProxy) and value.is_part and module_hooks.active_tracer() is value.tracer):
        return function(value, *args)
    answer, of_proxy = function(value.example, *args), function(value, *args)
    # A class of proxies answers for itself, because libraries ask it whether a trace runs.
    if answer != of_proxy and any(map(_is_about_proxies, args)):
        return of_proxy
    value.tracer.questions.asked(function, value, *[type if each is _TYPE else each for each in args])
    return answer


def _is_about_proxies(asked: Any) -> bool:
    """Return whether a class, a tuple of classes or the name of an attribute tells proxies from other values."""
    if isinstance(asked, tuple):
        return any(map(_is_about_proxies, asked))
    return asked in ("node", "tracer") if isinstance(asked, str) else asked in class_of_proxies().__mro__


def asks_for_instance(value: Any, kinds: Any) -> bool:
    """Work as `isinstance` does."""
    return bool(_asked(isinstance, value, kinds))


def asks_for_attribute(value: Any, name: str) -> bool:
    """Work as `hasattr` does."""
    return bool(_asked(hasattr, value, name))


class _Type:
    """Works as `type` does, and knows proxies."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], ExampleProxy) and module_hooks.active_tracer() is not None:
            proxy = args[0]
            if proxy.is_part:
                proxy.tracer.questions.asked(type, proxy)
            return type(proxy.example)
        return type(*args, **kwargs)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, type)

    def __subclasscheck__(self, cls: type) -> bool:
        return issubclass(cls, type)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type]:
        return (type,)

    def __getattr__(self, name: str) -> Any:
        return getattr(type, name)

    def __getitem__(self, parameter: Any) -> Any:
        return type[parameter]

    def __or__(self, other: Any) -> Any:
        return type | other

    def __ror__(self, other: Any) -> Any:
        return other | type

    def __eq__(self, other: object) -> bool:
        return other is type or other is self

    def __hash__(self) -> int:
        return hash(type)


def length_of(value: Any) -> Any:
    """Work as `len` does. The length of a tensor is a value of the graph, as `x.shape[0]` is."""
    if type(value) is ExampleTensor and module_hooks.active_tracer() is value.tracer:
        return value.tracer.create_proxy("call_function", len, (value,), {})
    return len(value)


def replacements() -> Iterator[Replacement]:
    """Yield the replacements of functions of libraries that ask for types and structures where Python cannot see it."""
    for owner, name in (("torch", "is_tensor"), ("torch.overrides", "is_tensor_like")):
        yield Replacement(owner, name, lambda original: _asking(original, isinstance, torch.Tensor))
    for owner, name in (("torch.jit", "isinstance"), ("dataclasses", "is_dataclass")):
        yield Replacement(owner, name, lambda original: _asking(original, original))
    yield Replacement("dataclasses", "fields", _of_class)
    yield from [Replacement("torch.utils._pytree", name, _given_containers) for name in _OF_PYTREE.split()]


def _asking(original: Callable[..., Any], question: Callable[..., Any], *asked: Any) -> Callable[..., Any]:
    """Return a function of a library as one that notes its answer about a part of the inputs."""

    @functools.wraps(original)
    def call(value: Any, *args: Any) -> Any:
        is_ours = is_library_file(sys._getframe(1).f_code.co_filename)
        return original(value, *args) if is_ours else _asked(question, value, *asked, *args)

    return call


def _of_class(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of classes and their objects as one that is given the class of a proxy's value."""
    return functools.wraps(original)(lambda value: original(_TYPE(value) if isinstance(value, ExampleProxy) else value))


def _given_containers(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of pytrees as one that finds the containers in the place of their proxies."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_library_file(sys._getframe(1).f_code.co_filename) or module_hooks.active_tracer() is None:
            return original(*args, **kwargs)
        return original(*map(_opened, args), **{name: _opened(value) for name, value in kwargs.items()})

    return call


def _opened(value: Any) -> Any:
    """Return a container with proxies for its parts in the place of a proxy, and note its type and length."""
    is_proxy = isinstance(value, ExampleProxy)
    kind: Any = type(value.example) if is_proxy else type(value)
    if is_proxy and value.is_part:
        value.tracer.questions.has_type(value)
    if kind in (dict, OrderedDict):
        return kind([(key, _opened(value[key])) for key in value.keys()])  # noqa: SIM118 - may be a proxy
    if kind in (list, tuple):
        return kind([_opened(item) for item in value])
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return kind(*[_opened(item) for item in value])
    return value


_TYPE = _Type()
_OF_PYTREE = (
    "tree_flatten tree_flatten_with_path tree_leaves tree_leaves_with_path tree_iter tree_structure tree_map tree_map_ "
    "tree_map_only tree_map_only_ tree_map_with_path tree_all tree_any tree_all_only tree_any_only"
)
_REPLACEMENTS = {"type": _TYPE, "isinstance": asks_for_instance, "hasattr": asks_for_attribute, "len": length_of}
