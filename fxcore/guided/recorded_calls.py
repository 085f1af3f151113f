"""Functions of torch that cannot be given a proxy, replaced while a trace with an example runs.

The parser of torch wants real numbers where sizes are given one by one (`torch.zeros(n, 3)`), and functions that look
at values want real values. einops looks up its recipes by shape, and a function of autograd is more than its forward.
With a proxy among their arguments, these calls are recorded. Because each run must draw new random numbers, draws of
torch, Python and numpy are recorded without a proxy, too.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.utils import checkpoint

from fxcore.errors import TraceArgumentError
from fxcore.guided.arguments import drawn, value_of
from fxcore.guided.proxies import ExampleProxy
from fxcore.operators.table import names_mutation, operator_table
from fxcore.state.readings import is_array
from fxcore.torch_fx_registry import RANDOM
from fxcore.tracing import module_hooks
from fxcore.tracing.patching import REPLACEMENTS, Patcher
from fxcore.tracing.recorded_functions import TAKE_SIZES_AT_ONCE
from fxcore.tracing.wrap import find_symbolic, recorded

_LOOK_AT_VALUES = (
    *("tensor", "as_tensor", "asarray", "scalar_tensor", "range", "broadcast_shapes"),
    *("from_numpy", "frombuffer", "from_dlpack", "to_dlpack"),
    *("sparse_coo_tensor", "sparse_compressed_tensor"),
    *("sparse_csr_tensor", "sparse_csc_tensor", "sparse_bsr_tensor", "sparse_bsc_tensor"),
)
_TAKE_NUMBERS = ("tensor", "as_tensor", "asarray")
_OF_NESTED = ("nested_tensor", "as_nested_tensor", "narrow", "nested_tensor_from_jagged")
_OF_DATACLASSES = ("replace", "asdict", "astuple")
_CLASSES = ("finfo", "iinfo")
_METHODS = ("new_tensor", "type", "tile", "unflatten", "view", "reshape", "repeat", "permute", "split", "narrow")
_DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
_GENERATORS = {
    "random": "seed random uniform randint randrange choice gauss normalvariate betavariate expovariate triangular",
    "numpy.random": (
        "seed rand randn randint random random_sample uniform normal binomial beta poisson exponential choice"
    ),
}
_OF_DLPACK = ("from_dlpack", "to_dlpack")
_OF_EINOPS = ("reduce", "einsum", "pack", "unpack", "parse_shape")


def patch_calls(patcher: Patcher) -> None:
    """Let the trace of `patcher` record these calls."""
    patcher.replace_all(vars(torch), _functions())
    patcher.replace_all(torch.Tensor, _methods())
    patcher.replace_all(vars(torch.nn.functional), _dropouts())
    patcher.replace(torch.nn.Module, "_apply", _with_values)
    patcher.replace(vars(torch), "_check_with", _recorded_check)
    for holder, functions in _draws().items():
        patcher.replace_all(vars(sys.modules[holder]), functions)
    patcher.replace(torch.autograd.Function, "apply", _recorded_apply)
    patcher.replace_all(torch.jit.ScriptFunction, _call_of_scripted_functions())
    patcher.replace_all(vars(torch), {"Generator": _recorded_generator()})
    patcher.replace(vars(torch.random), "fork_rng", _recorded_fork)
    for members, functions in _of_modules():
        patcher.replace_all(members, functions)


def patch_imported(patcher: Patcher, names: dict[str, Any]) -> None:
    """Replace functions that a module imported by name (`from torch import tensor`); `names` are its globals."""
    functions = _by_original(frozenset(_GENERATORS.keys() & sys.modules.keys()))
    is_library = str(names.get("__name__")).startswith(("torch.", "numpy", "einops."))
    if is_library or functions.keys().isdisjoint(map(id, list(names.values()))):
        return
    found = {name: functions[id(value)] for name, value in list(names.items()) if id(value) in functions}
    patcher.replace_all(names, found)


@functools.cache
def _by_original(holders: frozenset[str]) -> dict[int, Any]:
    """Return the replacements of functions by the id of the original. `holders` are modules that are imported."""
    replaced = [_functions(), _dropouts(), *map(_draws_of, sorted(holders))]
    replaced += [functions for _, functions in _of_modules()]
    found = [each for functions in replaced for each in functions.values()]
    return {id(each.__wrapped__): each for each in found if hasattr(each, "__wrapped__")}


@contextmanager
def compiled_functions_inlined() -> Iterator[None]:
    """Let a call of a function under torch.compile run the function itself while a trace runs in this process."""
    config: Any = sys.modules.get("torch._dynamo.config")
    with config.patch(error_on_nested_fx_trace=False) if config is not None else nullcontext():
        yield


def _of_modules() -> list[tuple[dict[str, Any], dict[str, Callable[..., Any]]]]:
    """Return the globals of modules beside torch's own, each with the functions to put there."""
    named = {"torch.nested": _OF_NESTED, "torch.utils.dlpack": _OF_DLPACK, "einops.einops": _OF_EINOPS}
    named["dataclasses"] = _OF_DATACLASSES
    found = [
        (vars(sys.modules[name]), _recorded_of(name, members)) for name, members in named.items() if name in sys.modules
    ]
    return [*found, (vars(dataclasses), _recorded_of("dataclasses", _OF_DATACLASSES))]


@functools.cache
def _recorded_of(module: str, names: tuple[str, ...]) -> dict[str, Callable[..., Any]]:
    members = vars(sys.modules[module])
    return {name: recorded(REPLACEMENTS.original(members, name)) for name in names if name in members}


@functools.cache
def _recorded_fork(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement for torch.random.fork_rng: nodes save and restore the state of torch's CPU generator."""

    @functools.wraps(original)
    @contextmanager
    def fork_rng(devices: Any = None, enabled: bool = True, *args: Any, **kwargs: Any) -> Iterator[None]:
        tracer = module_hooks.tracer_of_all_calls() if enabled else None
        with original(devices, enabled, *args, **kwargs):
            if tracer is None:
                yield
                return
            state = tracer.create_proxy("call_function", torch.get_rng_state, (), {})
            try:
                yield
            finally:
                tracer.create_proxy("call_function", torch.set_rng_state, (state,), {})

    return fork_rng


@functools.cache
def _recorded_generator() -> Any:
    """Return torch.Generator as a class whose call is recorded, because each run makes and seeds a generator anew."""
    original = REPLACEMENTS.original(vars(torch), "Generator")

    class AsOriginal(type(original)):  # type: ignore[misc]  # a class known at run time
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, original)

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            tracer = module_hooks.tracer_of_all_calls()
            if tracer is None:
                return original(*args, **kwargs)
            return tracer.create_proxy("call_function", original, args, kwargs)

    class Generator(original, metaclass=AsOriginal):  # type: ignore[misc, valid-type]  # a class known at run time
        pass

    return Generator


@functools.cache
def _functions() -> dict[str, Callable[..., Any]]:
    def original(name: str) -> Any:
        return REPLACEMENTS.original(vars(torch), name)

    names = [name for name in (*_LOOK_AT_VALUES, *sorted(TAKE_SIZES_AT_ONCE)) if hasattr(torch, name)]
    found = {name: recorded(original(name)) for name in names}
    found |= {name: _recorded_maker(original(name)) for name in _TAKE_NUMBERS}
    found |= {name: _recorded_class(original(name)) for name in _CLASSES}
    drawing = ["manual_seed", *(each.__name__ for each in RANDOM)]
    return found | {name: _recorded_random(original(name)) for name in drawing}


def _recorded_maker(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, which makes tensors of numbers, as one that records a call, or tells whether a dtype is given.

    torch gives the default dtype to the tensor before its dispatcher sees the tensor.
    """
    record = recorded(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = module_hooks.tracer_of_all_calls()
        if tracer is None:
            return record(*args, **kwargs)
        has_dtype = any(isinstance(each, torch.dtype) for each in (*args, *kwargs.values()))
        tracer.operators.is_dtype_given = has_dtype or any(map(is_array, args))
        try:
            return record(*args, **kwargs)
        finally:
            tracer.operators.is_dtype_given = False

    return call


@functools.cache
def _dropouts() -> dict[str, Callable[..., Any]]:
    functions = {name: REPLACEMENTS.original(vars(torch.nn.functional), name) for name in _DROPOUTS}
    return {name: _recorded_random(function) for name, function in functions.items()}


def _recorded_class(kind: Any) -> Any:
    """Return a class that answers isinstance() as `kind` does, and records a call with a proxy."""

    class Recorded(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, kind)

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            found: Any = find_symbolic((args, kwargs))
            if found is None:
                return kind(*args, **kwargs)
            return found.tracer.create_proxy("call_function", kind, args, kwargs)

    return Recorded(kind.__name__, (), {})


def _recorded_random(function: Callable[..., Any], kind: str = "call_function") -> Callable[..., Any]:
    """Return a function or method that draws with `function`, or records that while a trace with an example runs."""
    target = function if kind == "call_function" else function.__name__

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = module_hooks.tracer_of_all_calls()
        is_proxy = kind == "call_method" and type(args[0]) is not torch.Tensor  # its own method records the call
        if tracer is None or is_proxy or _draws_the_same(tracer, args, kwargs):
            return function(*args, **kwargs)
        return tracer.create_proxy(kind, target, args, kwargs)

    return call


def _draws_the_same(tracer: Any, args: Any, kwargs: Any) -> bool:
    """Return whether a call draws the same in each run, from a generator that the traced code made and seeded."""
    generator = kwargs.get("generator")
    if not isinstance(generator, torch.Generator) or find_symbolic((args, kwargs)) is not None:
        return False
    return not any(generator is value for module in tracer.root.modules() for value in vars(module).values())


@functools.cache
def _recorded_check(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement for torch's checks. The graph repeats a check of contents in each run."""

    def check(error_type: Any, condition: Any, message: Any) -> None:
        if isinstance(condition, ExampleProxy) and condition.is_of_input:
            condition.tracer.create_proxy("call_function", torch._assert, (condition, "Check failed"), {})
        else:
            original(error_type, bool(condition) if isinstance(condition, ExampleProxy) else condition, message)

    return check


def _draws() -> dict[str, dict[str, Callable[..., Any]]]:
    """Return replacements for functions that draw from the generators of Python and, if it is imported, of numpy."""
    return {holder: _draws_of(holder) for holder in _GENERATORS if holder in sys.modules}


@functools.cache
def _draws_of(holder: str) -> dict[str, Callable[..., Any]]:
    members = vars(sys.modules[holder])
    return {
        name: _recorded_draw(REPLACEMENTS.original(members, name), f"{holder}.{name}")
        for name in _GENERATORS[holder].split()
        if name in members
    }


def _recorded_draw(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = module_hooks.tracer_of_all_calls()
        if tracer is None:
            return function(*args, **kwargs)
        found = tracer.create_proxy("call_function", drawn, (name, *args), kwargs)
        if isinstance(found, ExampleProxy) and not _is_number(found.example):
            return tracer.answers.answer(found, lambda value: value, "was chosen")
        return found

    return call


def _is_number(value: Any) -> bool:
    """Return whether a value is a number or an array. A graph cannot call methods of other values, such as layers."""
    return isinstance(value, (int, float)) or type(value).__module__ == "numpy"


@functools.cache
def _methods() -> dict[str, Callable[..., Any]]:
    names = [*_METHODS, *(name for name in sorted(TAKE_SIZES_AT_ONCE) if hasattr(torch.Tensor, name))]
    found = {name: recorded(REPLACEMENTS.original(torch.Tensor, name), "call_method", name) for name in names}
    drawing = [name for name, facts in operator_table().items() if "random" in facts and names_mutation(name)]
    for name in drawing:
        if hasattr(torch.Tensor, name):
            found[name] = _recorded_random(REPLACEMENTS.original(torch.Tensor, name), "call_method")
    return found


@functools.cache
def _with_values(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement for `Module._apply`: real parameters move, and no proxy takes their place."""

    def _apply(self: Any, function: Callable[[Any], Any], *args: Any, **kwargs: Any) -> Any:
        def on_values(tensor: Any) -> Any:
            return value_of(function(tensor))

        with module_hooks.suspended():
            return original(self, on_values, *args, **kwargs)

    return _apply


@functools.cache
def _recorded_apply(original: Any) -> Any:
    """Return a class method that records a call of `Function.apply`, so that the graph keeps its backward.

    If an argument cannot be an argument of a node, such as a function, the operations of its forward are recorded
    instead.
    """

    # The class method itself, in Python or, from torch 2.14 on, in C. It is bound to the user's class below.
    method = inspect.getattr_static(original.__self__, "apply")

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        found: Any = find_symbolic((args, kwargs))
        target = method.__get__(None, cls)
        if found is None:
            return target(*args, **kwargs)
        try:
            found.tracer.create_arg((args, kwargs))
        except TraceArgumentError:
            return _recorded_forward(cls, args, kwargs)
        return found.tracer.create_proxy("call_function", target, args, kwargs)

    return classmethod(apply)


def _recorded_forward(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if function is checkpoint.CheckpointFunction:
        run, _, *inputs = args
        return run(*inputs)
    if function.setup_context is not torch.autograd.Function.setup_context:
        return function.forward(*args, **kwargs)
    return function.forward(_ForwardContext(), *args, **kwargs)


class _ForwardContext:
    """The `ctx` of an autograd function's forward where nothing is kept for a backward."""

    needs_input_grad: tuple[bool, ...] = (False,) * 64

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep nothing."""

    save_for_forward = mark_dirty = mark_non_differentiable = set_materialize_grads = save_for_backward


@functools.cache
def _call_of_scripted_functions() -> dict[str, Callable[..., Any]]:
    original = REPLACEMENTS.original(torch.jit.ScriptFunction, "__call__")  # torch makes a new one for each reader

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        found: Any = find_symbolic((args, kwargs))
        if found is None:
            return original(self, *args, **kwargs)
        return found.tracer.create_proxy("call_function", self, args, kwargs, name=str(self.name))

    return {"__call__": call}
