"""Why a model cannot be traced, in a few words: the table of causes is what the tracer's authors work from."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from typing import Any

SHAPES = {"size", "dim", "numel", "ndimension", "stride", "nelement", "storage_offset"}
SHAPE_ATTRIBUTES = {"shape", "ndim"}
KINDS = {
    "dtype",
    "device",
    "is_cuda",
    "requires_grad",
    "layout",
    "is_sparse",
    "is_complex",
    "is_floating_point",
    "type",
}
PIECES = {"chunk", "split", "unbind", "tensor_split", "split_with_sizes"}
PASSED_ON = {
    "getitem",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "not_",
    "and_",
    "or_",
    "add",
    "sub",
    "mul",
    "mod",
    "floordiv",
    "truediv",
    "pow",
    "neg",
    "xor",
    "pos",
}

# The first that a message holds names the cause; those of proxies come later, in `cause_of_proxy`.
MESSAGES = (
    # What torch's parser says of `zeros(size, 3)` and `x.expand(size, 3)`, where the first argument is no int.
    (r"^(zeros|ones|empty|full|rand|randn|expand|view|reshape|repeat)\(\)", "a size given to a function of torch"),
    (r"is not installed as a submodule", "module made in forward"),
    (r"does not support item assignment", "item assignment"),
    (r"slice indices must be integers", "a size as an index of a slice"),
    (
        r"cannot be interpreted as an integer|indices must be integers|int\(\) argument must be",
        "a size where Python needs an int",
    ),
    (
        r"must be tuple of ints|must be int, not|must be (a )?tuple|argument 'size'|but found element of type \w*Proxy",
        "a size given to a function of torch",
    ),
    (
        r"instead found type '\w*Proxy|Expected a value of type|expected at most .* argument|Cast error",
        "scripted function",
    ),
    (
        r"invalid combination of arguments|must be (Tensor|bool|float|str), not|must be a number",
        "a proxy given to compiled code",
    ),
    (r"expected .* but got \w*Proxy|unhashable|keywords must be strings", "a proxy where Python needs a value"),
    (r"unexpected keyword argument|missing \d+ required|takes \d+ positional|multiple values", "*args or **kwargs"),
    (r"unsupported operand|bad operand|not supported between", "operator of a proxy and another type"),
    (r"attribute of torch|has no attribute", "attribute that a proxy's stand-in lacks"),
    (r"co_varnames is too small", "signature of forward"),
    (r"[Ss]pecify|[Ee]ither|[Nn]either|must be provided", "optional argument became a proxy"),
    (r"autograd|checkpoint|apply\(\)", "autograd function"),
)


def cause_of(error: BaseException) -> str:
    """Name the cause of a failure of tracing."""
    frames = list(frames_of(error))
    files = [frame.f_code.co_filename for frame in frames]
    if any("/einops/" in file or "/einx/" in file for file in files):
        return "einops"
    if any(name in file for file in files for name in ("beartype", "/jaxtyping/")):
        return "type check"
    found = cause_of_proxy(str(error), frames)
    if found:
        return found
    if any("/numpy/" in file for file in files[-2:]) or "numpy" in str(error).lower():
        return "numpy on a proxy"
    for pattern, cause in MESSAGES:
        if re.search(pattern, str(error)):
            return cause
    if isinstance(error, (AssertionError, ValueError, NotImplementedError)) and not from_tracer(files[-1]):
        return "the model's own check refuses a proxy"
    return f"other: {type(error).__name__}"


def from_tracer(file: str) -> bool:
    """Tell whether a file belongs to a tracer, not to a model."""
    return "/fxcore/" in file or "/torch/fx/" in file


def frames_of(error: BaseException) -> Iterator[types.FrameType]:
    """Yield the frames of an error, the outermost first."""
    traceback = error.__traceback__
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next


def cause_of_proxy(message: str, frames: list[types.FrameType]) -> str | None:
    """Name the cause if a tracer refused to tell a proxy's truth, length, items or keys."""
    asked = None
    if (
        "iterated" in message or "iterate" in message
    ):  # before control flow, of which that message of torch.fx speaks, too
        asked = "iterating"
    elif "control flow" in message:
        asked = "control flow on"
    elif "'len'" in message:
        asked = "len of"
    elif "**kwargs" in message or "keys()" in message:
        return "*args or **kwargs"
    if asked is None:
        return None
    proxy = proxy_in(frames)
    what = "a value" if proxy is None else nature_of(proxy.node)
    return f"{asked} {what}"


def proxy_in(frames: list[types.FrameType]) -> Any:
    """Find the proxy that the innermost frame of a tracer speaks of."""
    for frame in reversed(frames):
        if from_tracer(frame.f_code.co_filename):
            for name in ("obj", "self", "proxy", "value"):
                found = frame.f_locals.get(name)
                if hasattr(found, "node") and hasattr(found.node, "op"):
                    return found
    return None


def nature_of(node: Any) -> str:
    """Say what a value of the graph is: an argument, a size, a dtype, pieces of a tensor, or a tensor's numbers."""
    if node.op == "placeholder":
        return "an argument of forward"
    if name_of(node) in PIECES:
        return "chunks of a tensor"
    found = origins_of(node, set())
    for kind in ("numbers", "shape", "kind"):
        if kind in found:
            return {"numbers": "a tensor's numbers", "shape": "a shape", "kind": "a dtype or device"}[kind]
    return "an argument of forward"


def origins_of(node: Any, seen: set[Any]) -> set[str]:
    """Collect where the numbers come from that a node is computed of."""
    if node in seen:
        return set()
    seen.add(node)
    name = name_of(node)
    if node.op == "placeholder":
        return {"argument"}
    if name in SHAPES or name in SHAPE_ATTRIBUTES or (name == "len"):
        return {"shape"}
    if name in KINDS:
        return {"kind"}
    if name in PASSED_ON or name == "getattr":
        return set().union(*(origins_of(source, seen) for source in node.all_input_nodes))
    return {"numbers"}


def name_of(node: Any) -> str:
    """Name what a node calls; of a getattr, the attribute."""
    if node.op == "call_function":
        name = getattr(node.target, "__name__", str(node.target))
        return str(node.args[1]) if name == "getattr" and len(node.args) > 1 else name
    return str(node.target).rpartition(".")[2]
