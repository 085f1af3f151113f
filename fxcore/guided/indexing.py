"""Indices with proxies into tensors that are no proxies, such as `self.table[:n]` with a plain attribute.

C code indexes a tensor, and asks the proxies in the index for numbers. A torch function mode sees the call first. The
mode slows the whole trace, so a trace starts without the mode. The trace starts again with the mode when C code asks a
proxy for an index. A replacement of `torch.Tensor.__getitem__` would be simpler. But it makes every tensor a sequence
to C code, also after its removal: then `torch.tensor([x.sum()])` fails.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import CodeType, TracebackType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fxcore.tracing import module_hooks
from fxcore.tracing.call_site import instruction_at, is_library_file
from fxcore.tracing.wrap import find_symbolic

# The methods behind `tensor[index]` and `tensor[index] = value`, and the functions that a graph calls.
OPERATORS: dict[Any, Callable[..., Any]] = {
    torch.Tensor.__getitem__: operator.getitem,
    torch.Tensor.__setitem__: operator.setitem,
}


class IndexedByProxyError(BaseException):
    """A proxy is an index, and the trace does not see indexing yet. No handler of the traced code may catch it."""


class IndexingMode(TorchFunctionMode):
    """Records indexing of a tensor by proxies."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        target = OPERATORS.get(func)
        if target is not None and module_hooks.tracer_of_all_calls() is not None:
            found: Any = find_symbolic(args)
            if found is not None:
                return found.tracer.create_proxy("call_function", target, args, {})
        return func(*args, **(kwargs or {}))


def is_raised_by_indexing(error: BaseException) -> bool:
    """Return whether the user's innermost line in the traceback of an error was indexing."""
    found: TracebackType | None = None
    traceback = error.__traceback__
    while traceback is not None:
        if not is_library_file(traceback.tb_frame.f_code.co_filename):
            found = traceback
        traceback = traceback.tb_next
    return found is not None and is_indexing(found.tb_frame.f_code, found.tb_lasti)


def is_indexing(code: CodeType, offset: int) -> bool:
    """Return whether an instruction reads, writes or deletes an item."""
    item = instruction_at(code, offset)
    if item is None:
        return False
    is_operator = item.opname == "BINARY_OP" and "[" in item.argrepr  # from 3.14 on
    return is_operator or item.opname.endswith(("_SUBSCR", "_SLICE"))
