"""Reads of plain values beside the inputs while a trace runs: they become constants, so the graph asks for them again.

Attributes of modules and of objects that a model holds are watched: a descriptor in the class sees each read. Globals,
enclosed variables and defaults cannot be watched. Those that the code of reachable functions names are taken as read.
"""

from __future__ import annotations

import contextlib
import dis
import enum
import functools
import itertools
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn

from fxcore.errors import TraceError
from fxcore.graph_module import GraphModule
from fxcore.guided.proxies import ExampleProxy
from fxcore.state.changes import MISSING
from fxcore.state.containers import LIBRARIES, attributes_of, names_of
from fxcore.state.outer_values import (
    NO_RAW,
    Attributes,
    OuterValue,
    OuterValues,
    TensorFacts,
    WatchedObject,
    cells_of,
    frozen,
    given,
    held_by,
    is_immutable,
    is_watched_class,
    reference_to,
    takes_attributes,
)
from fxcore.tracing import module_hooks
from fxcore.tracing.call_site import is_library_file, is_user_file
from fxcore.tracing.code_facts import facts_of_code
from fxcore.tracing.patching import Patcher
from fxcore.tracing.wrap import handled_by

_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
_REGISTRIES = ("_parameters", "_buffers", "_modules")
_LISTS_OF_TENSORS = ("named_parameters", "named_buffers")  # `parameters()` and `buffers()` call these
_OF_HASATTR = ("_asked", "asks_for_attribute")  # functions of fxcore that stand in for hasattr
_MOST_OBJECTS = 1000
_MOST_ITEMS = 200
_DEEPEST = 8  # objects and containers inside of each other
_HOLD_OTHERS = (nn.Module, types.MethodType, functools.partial)
_NEVER_WATCHED = (torch.Tensor, nn.Module, torch.Generator, ExampleProxy)


class OuterReads:
    """The reads of one trace."""

    def __init__(self, tracer: Any, functions: Iterable[types.FunctionType], owner: Any) -> None:
        """`functions` are those that the trace may run, `owner` is the object that a traced method belongs to."""
        self._tracer = tracer
        self.is_noting = False  # to look at a value may read attributes
        self._values: dict[tuple[int, str], OuterValue] = {}  # by id of the holder and name
        self._written: set[tuple[int, str]] = set()
        self._objects: dict[int, WatchedObject] = {}  # by id
        self._holders: dict[int, Callable[[], Any]] = {}  # of watched objects and classes, by id
        # What modules are called in messages, by id.
        self._paths = {id(each): f"self.{path}".rstrip(".") for path, each in tracer.root.named_modules()}
        self._alive: list[Any] = []  # all with ids that are keys
        self._looked_at: set[types.FunctionType] = set()
        self._watched: dict[type, dict[str, Any]] = {}  # names to watch, each with the class attribute
        functions = dict.fromkeys(functions)
        facts = {each: facts_of_code(each.__code__).names for each in functions}
        self._names = frozenset[str]().union(*facts.values())
        # Names of attributes that may be missing: `getattr(self, "scale", None)`, `except AttributeError`.
        asking = [each.__code__ for each, names in facts.items() if not names.isdisjoint(("getattr", "hasattr"))]
        self._asked = {text for code in asking for text in code.co_consts if type(text) is str and text.isidentifier()}
        self._asked.update(*[names for names in facts.values() if "AttributeError" in names])
        for module in tracer.root.modules():
            self._look_at(module)
        self._look_at(owner)
        for function in functions:
            self._look_at_function(function)

    # Places to look at, before the trace.

    def _look_at(self, value: Any, depth: int = 0, text: str = "") -> None:
        """Find the modules and objects in a value. `text` is where messages say that they are."""
        if depth > _DEEPEST:
            return
        if isinstance(value, (list, tuple, dict)):
            items: Any = dict.items(value) if isinstance(value, dict) else enumerate(value)
            for key, part in itertools.islice(items, _MOST_ITEMS):
                self._look_at(part, depth + 1, f"{text}[{key!r}]" if type(key) in (int, str) else text)
        elif isinstance(value, functools.partial):
            self._look_at(value.func, depth, text)
            self._look_at(value.args, depth, f"{getattr(value.func, '__name__', text)}: args")
            self._look_at(value.keywords, depth, f"{getattr(value.func, '__name__', text)}: keywords")
        elif isinstance(value, types.MethodType):
            self._look_at(value.__self__, depth, text)
        elif isinstance(value, nn.Module) and id(value) not in self._paths:
            self._look_at_other_model(value, depth, text or type(value).__name__)
        elif not isinstance(value, (GraphModule, torch.jit.ScriptModule)):
            self._look_at_object(value, depth, text)

    def _look_at_object(self, value: Any, depth: int, text: str) -> None:
        """Find the attributes of a module or an object that can be watched, and the objects that it holds."""
        kind: Any = type(value)
        is_module = isinstance(value, nn.Module)
        if not is_module and (len(self._objects) > _MOST_OBJECTS or not is_watched_class(kind)):
            return
        if not self._hold(value, names_of if hasattr(value, "__dict__") else Attributes):
            return
        if not is_module:
            self._objects[id(value)] = WatchedObject(value)
        attributes = vars(value) if is_module else attributes_of(value)
        names = attributes.keys() - _OF_EVERY_MODULE
        if _is_of_library(kind):
            names &= self._names
        else:
            names |= self._asked
            for each in kind.__mro__:
                self._look_at_class(each)
        for name in names:
            held = attributes.get(name, MISSING)
            if not isinstance(held, _NEVER_WATCHED):
                self._watch(kind, name)
            self._look_at(held, depth + 1, f"{text or self._text_of(value)}.{name}")
            if isinstance(held, types.FunctionType) and not _is_of_library(held):
                self._look_at_function(held)

    def _look_at_other_model(self, model: nn.Module, depth: int, text: str) -> None:
        """Find the attributes of a model beside the traced one."""
        for path, module in model.named_modules():
            if id(module) not in self._paths:
                self._paths[id(module)] = f"{text}.{path}".rstrip(".")
                self._look_at(module, depth)

    def _hold(self, value: Any, names: Callable[[Any], Any]) -> bool:
        """Keep the holder of an object or a class; return False for a known one."""
        if id(value) in self._holders:
            return False
        self._holders[id(value)] = functools.partial(held_by, reference_to(value), names)
        self._alive.append(value)
        return True

    def _look_at_class(self, kind: type) -> None:
        if _is_of_library(kind) or issubclass(kind, (enum.Enum, torch.Tensor)) or not self._hold(kind, Attributes):
            return
        for name, value in list(vars(kind).items()):
            if not (name.startswith("__") or isinstance(value, _NEVER_WATCHED) or _is_code(value)):
                self._watch(kind, name)
                self._look_at(value, 1)

    def _watch(self, kind: type, name: str) -> None:
        # Only the watch of the class that has the attribute knows whose attribute a derived class reads.
        kind = next((each for each in kind.__mro__ if name in vars(each) and not _is_of_library(each)), kind)
        names = self._watched.setdefault(kind, {})
        # Python reads `__name__`, `__dict__` and other names of this form from the class itself.
        if name not in names and not name.startswith("__") and takes_attributes(kind):
            behind = next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), MISSING)
            behind = behind.behind_watch if isinstance(behind, _Watch) else behind  # of a trace in another thread
            if isinstance(behind, types.MemberDescriptorType) or not _is_code(behind):
                names[name] = behind

    def _look_at_function(self, function: types.FunctionType) -> None:
        if function in self._looked_at:
            return
        self._looked_at.add(function)
        code, reference = function.__code__, reference_to(function)
        self._take_globals(code, function.__globals__, "")
        for module in _imported_by(function):
            self._take_globals(code, vars(module), f"{module.__name__}.")
        cells = functools.partial(held_by, reference, cells_of)
        self._take(code, cells_of(function), cells, f"{function.__name__}: ", ("LOAD_DEREF", "LOAD_C"))
        defaults = {name: getattr(function, name) for name in ("__defaults__", "__kwdefaults__")}
        given = {name: value for name, value in defaults.items() if value}
        holder = functools.partial(held_by, reference, Attributes)
        named = {name: value for name, value in vars(function).items() if name in facts_of_code(code).names}
        self._take(code, named, holder, f"{function.__qualname__}.", ("LOAD_ATTR", "LOAD_METHOD"))
        self._take(code, given, holder, f"{function.__qualname__}.", (), code.co_firstlineno)

    def _take_globals(self, code: types.CodeType, held: dict[str, Any], prefix: str) -> None:
        """Take the globals of a module that some code names, and look at the classes and modules among them."""
        named = {name: held[name] for name in facts_of_code(code).names if name in held}
        loads = ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM") if prefix else ("LOAD_GLOBAL", "LOAD_NAME")
        self._take(code, named, functools.partial(given, held), prefix, loads)
        for name, value in named.items():
            if isinstance(value, type):
                self._look_at_class(value)
            elif isinstance(value, types.ModuleType) and not (prefix or _is_of_library(value)):
                self._take_globals(code, vars(value), f"{name}.")

    def _take(
        self, code: types.CodeType, held: dict[str, Any], holder: Any, prefix: str, loads: Any, line: int = 0
    ) -> None:
        """Take values that cannot be watched as read by some code. The line is found when a value has changed."""
        for name, value in held.items():
            if isinstance(value, _HOLD_OTHERS):
                self._look_at(value, 1, prefix + name)
            if isinstance(value, (types.ModuleType, *_NEVER_WATCHED)) or _is_code(value):
                continue
            self._look_at(value, 1, prefix + name)
            if (key := (id(holder.args[0]), name)) in self._values:
                self._values[key].codes.append(code)
            else:
                self._add(key, holder, prefix + name, value, code, line)
                self._values[key].loads = loads

    def _add(self, key: tuple[int, str], holder: Any, text: str, value: Any, code: Any, line: int) -> None:
        """Add a value that is read, by the id of its holder and its name, unless it is known."""
        if key in self._values:
            return
        raw = value if is_immutable(value) else NO_RAW
        expected = frozen(value, self._objects)
        if isinstance(expected, WatchedObject) and not expected.text:
            expected.text = text
        self._alive.append((holder, value))
        self._values[key] = OuterValue(holder, key[1], text, expected, raw, [code], line)

    # Reads.

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """See the reads of a with block. Class attributes that the block assigns stay assigned."""
        with Patcher() as patcher:
            for kind, names in self._watched.items():
                patcher.replace_all(kind, {name: _Watch(name, behind) for name, behind in names.items()})
            for environment in (os.environ, getattr(os, "environb", None)):
                if isinstance(environment, os._Environ):  # its class: Python 3.13 calls an old `[]` after 500 traces
                    patcher.replace(vars(environment), "encodekey", _noting_environment)
            for name in _LISTS_OF_TENSORS:
                patcher.replace(nn.Module, name, _noting_tensors)
            yield
            watched = [(kind, name) for kind, names in self._watched.items() for name in names if name in vars(kind)]
            values = [(kind, name, vars(kind)[name]) for kind, name in watched]
            assigned = [each for each in values if not isinstance(each[2], _Watch)]
        for kind, name, value in assigned:
            setattr(kind, name, value)

    def note_attribute(self, value: Any, owner: Any, name: str, held: Any, found: Any, frame: types.FrameType) -> None:
        """Note a read of an attribute: `held` by the object itself, or `found` in its class; or MISSING."""
        if _is_module(value) and any(name in vars(value)[each] for each in _REGISTRIES):
            return
        if isinstance(held, Iterator):
            raise TraceError(
                f"the iterator {self._text_of(value)}.{name} gives another item in each call, and the graph would keep "
                f"the example's{self._tracer._place()}\n"
                "Keep a list and a position in a buffer, or keep the code that takes an item in a leaf (fxcore.wrap, "
                "leaf_modules=)"
            )
        self.is_noting = True
        try:
            if value is not None:
                self._note(value, name, held, frame)
            if held is MISSING and found is not MISSING:
                for kind in owner.__mro__:  # a class that takes the attribute later hides the one of its base
                    self._note(kind, name, found if name in vars(kind) else MISSING, frame)
                    if name in vars(kind):
                        break
        finally:
            self.is_noting = False

    def _note(self, holder: Any, name: str, value: Any, frame: types.FrameType) -> None:
        key = id(holder), name
        if key in self._values or key in self._written or id(holder) not in self._holders:
            return
        text = f"{self._text_of(holder)}.{name}"
        self._add(key, self._holders[id(holder)], text, value, frame.f_code, frame.f_lineno)
        if id(holder) in self._objects:
            self._objects[id(holder)].read[name] = self._values[key].expected

    def note_write(self, holder: Any, name: str) -> None:
        """Note that the traced code writes an attribute. A later read gives no value from outside."""
        self._written.add((id(holder), name))

    def note_training(self, module: nn.Module, value: bool, frame: types.FrameType) -> None:
        """Note that the traced code reads the mode of a module; the modes of the traced model are other guards."""
        self._note(module, "training", value, frame)

    def note_flag(self, owner: Any, text: str, name: str, value: Any, frame: types.FrameType) -> None:
        """Note that the traced code reads a flag of a backend of torch."""
        holder = functools.partial(held_by, reference_to(owner), Attributes)
        self._add((id(owner), name), holder, f"{text}.{name}", value, frame.f_code, frame.f_lineno)

    def note_tensor(self, owner: nn.Module, name: str, frame: types.FrameType) -> None:
        """Note that the traced code got a parameter or buffer itself, and may ask for its dtype and device."""
        reference = reference_to(owner)
        for fact in ("dtype", "device"):
            holder, key = functools.partial(held_by, reference, TensorFacts), (id(owner), f"{name}.{fact}")
            found = TensorFacts(owner).get(key[1], MISSING)
            self._add(key, holder, f"{self._text_of(owner)}.{key[1]}", found, frame.f_code, frame.f_lineno)

    def note_environment(self, name: str, frame: types.FrameType) -> None:
        """Note that the traced code reads a variable of the environment, which can be missing."""
        key, holder = (id(os.environ), name), functools.partial(given, os.environ)
        self._add(key, holder, f"os.environ[{name!r}]", os.environ.get(name, MISSING), frame.f_code, frame.f_lineno)

    def _text_of(self, holder: Any) -> str:
        if _is_module(holder):
            return self._paths.get(id(holder), "self")
        if isinstance(holder, type):
            return holder.__qualname__
        return self._objects[id(holder)].text or type(holder).__qualname__

    def found(self) -> OuterValues | None:
        """Return the values that were read, without those that the traced code has changed."""
        values: list[OuterValue] = []
        for each in self._values.values():
            held = each.holder()
            now = MISSING if held is None else held.get(each.name, MISSING)
            if each.expected == frozen(now, self._objects):
                values.append(each)
        for module in self._tracer.root.modules():
            if isinstance(module, GraphModule):
                values += getattr(getattr(module.graph.guards, "outer", None), "values", ())
        return OuterValues(values) if values else None


def _is_code(value: Any) -> bool:
    """Return whether a value is a function, a class or a descriptor, and no data."""
    return isinstance(value, type) or hasattr(type(value), "__get__")


def _imported_by(function: types.FunctionType) -> list[types.ModuleType]:
    """Return the modules of the user that a function's own code imports: `from settings import SCALE`."""
    code, package = function.__code__, function.__globals__.get("__package__")
    if dis.opmap["IMPORT_NAME"] not in code.co_code[::2]:
        return []
    found = [sys.modules.get(path) for name in code.co_names for path in (name, f"{package}.{name}")]
    return [module for module in found if isinstance(module, types.ModuleType) and not _is_of_library(module)]


def _is_of_library(value: Any) -> bool:
    name = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
    return str(name).partition(".")[0] in LIBRARIES


class _Watch:
    """Takes the place of an attribute in a class, and tells the running trace about reads and writes."""

    __slots__ = ("behind_watch", "name")

    def __init__(self, name: str, behind: Any) -> None:
        """`behind` is the class attribute of this name, or MISSING."""
        self.name, self.behind_watch = name, behind

    def __get__(self, value: Any, owner: Any = None) -> Any:
        held = self._held_by(value)
        found = self.behind_watch if held is MISSING and not self._is_slot else held
        frame: Any = sys._getframe(1)
        while frame.f_code.co_name in _OF_HASATTR:
            frame = frame.f_back
        reads = _running_reads(frame)
        if reads is not None:
            reads.note_attribute(value, owner, self.name, held, found, frame)
        if found is MISSING:
            raise AttributeError(f"{owner.__name__!r} object has no attribute {self.name!r}")
        return found

    def __set__(self, value: Any, held: Any) -> None:
        if self._is_slot:
            self.behind_watch.__set__(value, held)
        else:
            names_of(value)[self.name] = held
        self._note_write(value)

    def __delete__(self, value: Any) -> None:
        if self._held_by(value) is MISSING:
            raise AttributeError(self.name)
        if self._is_slot:
            self.behind_watch.__delete__(value)
        else:
            del names_of(value)[self.name]
        self._note_write(value)

    @property
    def _is_slot(self) -> bool:
        return isinstance(self.behind_watch, types.MemberDescriptorType)

    def _held_by(self, value: Any) -> Any:
        """Return the value that an object itself holds."""
        if value is None or not self._is_slot:
            return MISSING if value is None else names_of(value).get(self.name, MISSING)
        try:
            return self.behind_watch.__get__(value)
        except AttributeError:
            return MISSING

    def _note_write(self, value: Any) -> None:
        tracer = module_hooks.tracer_of_all_calls()
        if tracer is not None:
            tracer.outer_reads.note_write(value, self.name)


def _is_module(value: Any) -> bool:
    """Return whether a value is a module, without a question to the value: a read would begin another read."""
    return issubclass(type(value), nn.Module)


def _running_reads(frame: types.FrameType) -> OuterReads | None:
    """Return the reads of the running trace if the code in a frame is traced code, and no read is being noted."""
    tracer = module_hooks.tracer_of_all_calls()
    if tracer is None or is_library_file(frame.f_code.co_filename):
        return None
    reads: OuterReads = tracer.outer_reads
    return None if reads.is_noting else reads


def _read_variable(tracer: Any, original: Callable[..., Any], key: Any) -> Any:
    frame: Any = sys._getframe(2)  # behind the replacement
    is_read = frame.f_code is os._Environ.__getitem__.__code__  # else a write
    while frame.f_back is not None and not (is_user_file(file := frame.f_code.co_filename) or is_library_file(file)):
        frame = frame.f_back
    reads = _running_reads(frame) if is_read else None  # none for torch's own question
    if reads is not None:
        reads.note_environment(os.fsdecode(key), frame)
    return original(key)


_noting_environment = functools.cache(handled_by(_read_variable))


@functools.cache
def _noting_tensors(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that lists parameters or buffers, and notes those that traced code gets.

    Python reads the dtype of a plain tensor without a call that a trace could see.
    """

    @functools.wraps(original)
    def listed(self: nn.Module, prefix: str = "", *args: Any, **kwargs: Any) -> Iterator[tuple[str, torch.Tensor]]:
        for name, tensor in original(self, prefix, *args, **kwargs):
            frame: Any = sys._getframe(1)
            while frame.f_code.co_name in ("parameters", "buffers") and is_library_file(frame.f_code.co_filename):
                frame = frame.f_back
            reads = _running_reads(frame)
            if reads is not None:
                path, _, held = name[len(prefix) + 1 if prefix else 0 :].rpartition(".")
                reads.note_tensor(self.get_submodule(path), held, frame)
            yield name, tensor

    return listed
