"""Classes whose construction tracing can record."""

from __future__ import annotations

from typing import Any

from fxcore import active_trace
from fxcore.wrapping import find_symbolic

# Classes made so, in order; their instances may be constants of a graph.
proxyable_classes: dict[type, None] = {}


class ProxyableClassMeta(type):
    """Metaclass of a class that, constructed from traced values, becomes a call of the class in the graph."""

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        proxyable_classes[cls] = None
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if active_trace.current() is not None:
            found = find_symbolic((args, kwargs))
            if found is not None:
                return found.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)
