"""The modules of a graph: found by path, with the facts of their classes and the hyper-parameters that count."""

from __future__ import annotations

import dis
import enum
import functools
import marshal
import operator
import re
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch

from fxcore.operators.layers import layer_traits, training_matters
from pytest_fxgraph.document.argument_texts import ArgumentTexts
from pytest_fxgraph.document.constructors import NEVER, Parameter, recorded_parameters
from pytest_fxgraph.document.model import HOOK_KEYS, PATCHED_FORWARD, GraphDocument
from pytest_fxgraph.document.target_names import class_name, text_or_class

TextOf = Callable[[Any], str]
Config = tuple[tuple[str, str], ...]

# What torch.nn.Module itself keeps in public attributes.
_NOT_ATTRIBUTES = frozenset({"training", "call_super_init", "dump_patches"})
_DESCRIBED_ELSEWHERE = (torch.Tensor, torch.nn.Module)
# Facts of torch.ao's modules that their constructors do not take, or that stand for the dtype of the state.
_QUANTIZATION = ("dtype", "qscheme", "ch_axis", "scale", "zero_point", "quant_min", "quant_max", "reduce_range")
_WORD = re.compile(r"[\w.,>+*-]{1,64}\Z")
_MISSING = NEVER  # in place of a value that a module does not have
_DEEPEST_DATA = 20
_WITHOUT_SHARING = 2  # version of the format; in later ones, equal values may have different forms


class Attributes:
    """Attributes of a module by path."""

    def __init__(self, root: torch.nn.Module) -> None:
        self._known: dict[str, Any] = {"": root}

    def at(self, path: str) -> Any:
        """Return what a path names. Raises AttributeError if a part of it is missing."""
        known = self._known
        if path not in known:
            parent, _, name = path.rpartition(".")
            owner = known[parent] if parent in known else self.at(parent)
            # Modules first: torch.nn.Module looks for its parameters and buffers before them, in Python.
            found = owner._modules.get(name) if isinstance(owner, torch.nn.Module) else None
            known[path] = getattr(owner, name) if found is None else found
        return known[path]


@dataclass(frozen=True)
class ModuleTraits:
    """Facts about a class of modules."""

    kind: str  # qualified name
    is_of_torch: bool
    is_layer: bool  # of torch.nn: has what its constructor puts there, and finds attributes as all modules do
    is_inert: bool  # a layer that does nothing but compute, unless it works in place
    parameters: tuple[Parameter, ...]  # of the constructor; of a user's class, those that the table lacks in its base

    @cached_property
    def kept_parameters(self) -> tuple[str, ...]:
        """The names of the constructor's parameters that a layer keeps as attributes: all but `bias`."""
        return tuple([parameter.name for parameter in self.parameters if parameter.name != "bias"])

    @cached_property
    def kept_values(self) -> Callable[[dict[str, Any]], Any]:
        """The values of `kept_parameters` in a dict of attributes, asked at once."""
        return operator.itemgetter(*self.kept_parameters) if self.kept_parameters else lambda attributes: None

    @cached_property
    def takes_bias(self) -> bool:
        """Tell whether the constructor has a parameter `bias`, of which a layer keeps the tensor or None."""
        return any(parameter.name == "bias" for parameter in self.parameters)


def traits_of(cls: type) -> ModuleTraits:
    """Return the traits of a class of modules."""
    known = _TRAITS_OF_LAYERS.get(cls)
    if known is None:
        # A class of the user's is not kept: it may be one of many that a test makes, and stay alive for nothing.
        known = _traits_of_torch(cls) if cls.__module__.startswith("torch.") else _traits(cls)
        if known.is_layer:
            _TRAITS_OF_LAYERS[cls] = known
    return known


_TRAITS_OF_LAYERS: dict[type, ModuleTraits] = {}  # of torch.nn's own classes, which are asked for most


@functools.lru_cache(maxsize=512)
def _traits_of_torch(cls: type) -> ModuleTraits:
    return _traits(cls)


def _traits(cls: type) -> ModuleTraits:
    layer = layer_traits(cls)
    return ModuleTraits(
        kind=class_name(cls),
        is_of_torch=layer.is_of_torch,
        is_layer=layer.is_layer,
        is_inert=layer.is_inert,
        parameters=recorded_parameters(cls) if layer.is_of_torch else _new_parameters_of_base(cls),
    )


def _new_parameters_of_base(cls: type) -> tuple[Parameter, ...]:
    """List what the class of torch that a user's class derives from has of parameters that some torches do not know."""
    base = next((each for each in cls.__mro__ if each.__module__.startswith("torch.")), torch.nn.Module)
    if base is torch.nn.Module:  # nearly always
        return ()
    return tuple([parameter for parameter in traits_of(base).parameters if parameter.is_new])


class CalledModule(NamedTuple):
    """A module that runs as part of a graph, and its document, if it is itself a graph."""

    path: str
    module: torch.nn.Module
    traits: ModuleTraits
    graph: GraphDocument | None


def parts_of(path: str, module: torch.nn.Module) -> Iterable[tuple[str, torch.nn.Module]]:
    """List a module and the modules inside it, each under every path that it has."""
    if not module._modules:  # most of those that a graph calls
        return ((path, module),)
    parts: Iterable[tuple[str, torch.nn.Module]] = module.named_modules(prefix=path, remove_duplicate=False)
    return parts


# Hyper-parameters.


def module_config(module: torch.nn.Module, text: TextOf, traits: ModuleTraits | None = None) -> Config:
    """Describe a module: by its constructor for torch.nn, by its public attributes for the user's."""
    traits = traits or traits_of(type(module))
    known = _layer_config(module, traits) if traits.is_layer else None
    if known is not None:
        return known
    values_of = _constructor_values if traits.is_of_torch else _attribute_values
    values = values_of(module, traits.parameters)
    return tuple([(name, text_or_class(value, text)) for name, value in values])


def _layer_config(module: torch.nn.Module, traits: ModuleTraits) -> Config | None:
    """Describe a layer of plain values as the last one with these values was; None for any other."""
    attributes = module.__dict__
    try:
        has_bias = traits.takes_bias and module._parameters["bias"] is not None
        # As a key, the marshalled form tells 1, True, 1.0 and the bits of floats apart.
        packed = marshal.dumps((has_bias, traits.kept_values(attributes)), _WITHOUT_SHARING)
    except (KeyError, ValueError):  # ValueError: a value that is no plain data
        return None
    cls: Any = type(module)  # metaclass and all, a class is hashable
    return _config_of_values(cls, packed)


@functools.lru_cache(maxsize=4096)
def _config_of_values(cls: Any, packed: bytes) -> Config:
    traits, (has_bias, kept) = traits_of(cls), marshal.loads(packed)
    values = [*(kept if len(traits.kept_parameters) > 1 else (kept,)), has_bias]
    by_name = dict(zip((*traits.kept_parameters, "bias"), values, strict=False))
    text, config = ArgumentTexts(None).text, []
    for parameter in traits.parameters:
        value = by_name[parameter.name]
        is_new_bias = parameter.is_new and parameter.name == "bias"
        if not is_new_bias and not _goes_unsaid(value, parameter):
            config.append((parameter.name, text_or_class(value, text)))
    return tuple(config)


def _goes_unsaid(value: Any, parameter: Parameter) -> bool:
    """Tell whether a value is the one that goes unsaid; a new parameter may be kept once for each dimension."""
    unsaid = parameter.unsaid
    if parameter.is_new and type(value) is tuple and type(unsaid) is not tuple:
        return bool(value) and all(_is_same(each, unsaid) for each in value)
    return _is_same(value, unsaid)


def _is_same(value: Any, unsaid: Any) -> bool:
    return type(value) is type(unsaid) and bool(value == unsaid)


def training_flag(module: torch.nn.Module) -> bool | None:
    """Give a module's training flag where it changes, or in a user's module may change, what is computed."""
    if traits_of(type(module)).is_of_torch and not training_matters(module):
        return None
    return bool(module.training)


def _constructor_values(module: torch.nn.Module, parameters: Sequence[Parameter]) -> list[tuple[str, Any]]:
    values = []
    attributes = module.__dict__
    for parameter in parameters:
        name = parameter.name
        if parameter.is_new and name in module._parameters:
            continue  # whether the tensor is there is said by the state, and so by torches without the parameter
        if name == "bias":
            value = _has_bias(module, parameter.dropped)
        else:
            value = attributes[name] if name in attributes else getattr(module, name, parameter.dropped)
        # Tensors are state, and modules within have a record of their own.
        if value is _MISSING or isinstance(value, _DESCRIBED_ELSEWHERE):
            continue
        if not _goes_unsaid(value, parameter):
            values.append((name, value))
    if type(module).__module__.startswith("torch.ao."):
        known = {parameter.name for parameter in parameters}
        values += [(name, attributes[name]) for name in _QUANTIZATION if name in attributes and name not in known]
    return values


def _has_bias(module: torch.nn.Module, otherwise: Any) -> Any:
    for name in ("bias", "in_proj_bias"):
        value = getattr(module, name, _MISSING)
        if value is not _MISSING:
            return value if isinstance(value, bool) else value is not None
    return otherwise


def _attribute_values(module: torch.nn.Module, new: Sequence[Parameter]) -> list[tuple[str, Any]]:
    attributes = vars(module).items()
    names = {name for name, value in attributes if not name.startswith("_") and (_is_data(value) or _is_word(value))}
    names |= {name for name in getattr(type(module), "__constants__", ()) if hasattr(module, name)}
    names -= {each.name for each in new if _goes_unsaid(getattr(module, each.name, _MISSING), each)}
    values = [(name, getattr(module, name)) for name in sorted(names - _NOT_ATTRIBUTES)]
    return [(name, value) for name, value in values if not isinstance(value, _DESCRIBED_ELSEWHERE)]


def _is_word(value: Any) -> bool:
    """Tell whether a value is a string that may choose an algorithm, `reflect` or `bi,bj->ij`, and no path or prose."""
    return isinstance(value, str) and _WORD.match(value) is not None


_KINDS_OF_DATA = (bool, int, float, complex, enum.Enum, torch.dtype, torch.qscheme, torch.device)


def _is_data(value: Any, depth: int = 0) -> bool:
    """Tell whether a value is plain data, or a container of plain data: what a golden tells of a user's module."""
    if value is None or isinstance(value, _KINDS_OF_DATA):
        return True
    if depth > _DEEPEST_DATA:
        return False
    if isinstance(value, slice):
        value = (value.start, value.stop, value.step)
    elif isinstance(value, dict):
        value = [*value.values(), *(key for key in value if not isinstance(key, str))]
    elif not isinstance(value, (tuple, list, set, frozenset)):
        return False
    return all(_is_data(item, depth + 1) for item in value)


# Forward hooks that change what goes in or comes out: part of what a graph runs, and not in it.


def hook_config(module: torch.nn.Module, name_of: Callable[[Any], str]) -> tuple[tuple[str, str], ...]:
    """Name the forward hooks of a module that may return something, and a forward that replaces its class's own.

    Hooks that only look on are left out.
    """
    registries = module._forward_pre_hooks, module._forward_hooks
    found = []
    for key, hooks in zip(HOOK_KEYS, registries, strict=True):
        names = [text_or_class(hook, name_of) for hook in hooks.values() if returns_something(hook)]
        if names:
            found.append((key, f"[{', '.join(names)}]"))
    if "forward" in vars(module):
        found.append((PATCHED_FORWARD, text_or_class(module.forward, name_of)))
    return tuple(found)


def returns_something(function: Any) -> bool:
    """Tell whether a function may return anything but None; what cannot be looked into may."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, types.MethodType):
        function = function.__func__
    elif not isinstance(function, types.FunctionType):
        function = getattr(type(function).__call__, "__func__", type(function).__call__)
    code = getattr(function, "__code__", None)
    return not isinstance(code, types.CodeType) or _returns_something(code)


def _returns_something(code: types.CodeType) -> bool:
    last: Any = None
    for instruction in dis.get_instructions(code):
        if instruction.opname == "RETURN_CONST" and instruction.argval is not None:
            return True
        # `return a if b else None` jumps to the return with a value on the stack: the instruction is a target.
        if instruction.opname == "RETURN_VALUE" and (last is None or instruction.is_jump_target or not _is_none(last)):
            return True
        if instruction.opname != "NOP":
            last = instruction
    return False


def _is_none(instruction: dis.Instruction) -> bool:
    return instruction.opname in ("LOAD_CONST", "LOAD_COMMON_CONSTANT") and instruction.argval is None
