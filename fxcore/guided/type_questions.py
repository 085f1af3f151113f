"""`type(x) is torch.Tensor`, asked of a proxy: the answer is the class of the example's value.

Python has no protocol for `type()`. While a trace with an example runs, the name `type` has another meaning in the
modules of the traced code.
"""

from __future__ import annotations

from typing import Any

from fxcore.guided.proxies import ExampleProxy
from fxcore.tracing import module_hooks
from fxcore.tracing.patching import Patcher


def patch_type(patcher: Patcher, names: dict[str, Any]) -> None:
    """Let `type` in a module with these globals answer for the values of proxies; torch's own modules stay."""
    if "type" not in names and not str(names.get("__name__")).startswith("torch."):
        patcher.replace_all(names, _REPLACEMENT)


class _Type:
    """Works as `type` does, and knows proxies."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], ExampleProxy) and module_hooks.active_tracer() is not None:
            return type(args[0].example)
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


_REPLACEMENT = {"type": _Type()}
