"""`type(x) is torch.Tensor`, `isinstance(x, list)`, `hasattr(x, "mask")` and `len(x)`, asked of a proxy.

The answer is that of the example's value; about a part of the inputs, it becomes a guard. Python has no protocol for
`type()`, and none for `isinstance` where the class of a proxy answers by itself. While a trace with an example runs,
these names have another meaning in the modules of the traced code.
"""

from __future__ import annotations

from typing import Any

from fxcore.guided.proxies import ExampleProxy, ExampleTensor
from fxcore.tracing import module_hooks
from fxcore.tracing.patching import Patcher


def patch_types(patcher: Patcher, names: dict[str, Any]) -> None:
    """Let these functions answer for the values of proxies in modules with these globals, but for torch's and ours."""
    if str(names.get("__name__")).partition(".")[0] not in ("torch", "fxcore"):
        # A module may have functions of its own with these names.
        ours = {name: each for name, each in _REPLACEMENTS.items() if names.get(name, each) is each}
        patcher.replace_all(names, ours)


def _asked(function: Any, value: Any, *args: Any) -> Any:
    """Return the answer of a function about a value. Note it if the value is a part of the inputs."""
    answer = function(value, *args)
    is_part = isinstance(value, ExampleProxy) and value.is_part and module_hooks.active_tracer() is value.tracer
    # A class of proxies answers for itself, because libraries ask it whether a trace runs.
    if is_part and function(value.example, *args) == answer:
        value.tracer.questions.asked(function, value, *[type if each is _TYPE else each for each in args])
    return answer


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


_TYPE = _Type()
_REPLACEMENTS = {"type": _TYPE, "isinstance": asks_for_instance, "hasattr": asks_for_attribute, "len": length_of}
