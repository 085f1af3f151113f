"""What tensors hold, as text: small ones value by value, large ones by digest and statistics."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import math
import struct
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import torch

from pytest_fxgraph.document.literals import complex_text, float_text, int_text, string_text

# Where a node's value is described: make_fx and export, whose passes keep it up to date, shape propagation, Dynamo.
META_KEYS = ("val", "tensor_meta", "example_value")
MOST_VALUES_IN_FULL = 64
DIGITS_THAT_ARE_CLOSE = 4
# Dimensions from the innermost, by the number of dimensions.
_CHANNELS_LAST = {4: ("channels_last", (1, 3, 2, 0)), 5: ("channels_last_3d", (1, 4, 3, 2, 0))}
_STEP, _WEIGHTS = 40503, 65536  # multiples of this step spread over the weights, near places far apart
# Formats in which the shortest text that comes back is looked for; the others are written as the double they equal.
_PACKED = {torch.float32: "f", torch.bfloat16: "f", torch.float16: "e"}


def tensor_text(tensor: Any) -> str:
    """Write dtype, shape and, where it is not contiguous, layout: `float32[2, 3] strides=(1, 2)`.

    For anything that has them, such as TensorMetadata.
    """
    return text_and_bytes(tensor)[0]


def text_and_bytes(tensor: Any) -> tuple[str, int]:
    """Write a tensor as `tensor_text` does, and count the bytes from its first element to its last.

    The count is 0 where there are no elements, and where sizes or strides are not known.
    """
    sizes = tensor.shape
    try:
        strides = tensor.stride() if tensor.layout is torch.strided else ()
    except (TypeError, AttributeError, RuntimeError, NotImplementedError):
        strides = _strides_of_metadata(tensor)
    try:
        return known_text_and_bytes(tensor.dtype, sizes, strides)
    except TypeError:  # symbolic sizes are no keys
        return _text(tensor.dtype, sizes, strides), 0


@functools.lru_cache(maxsize=4096)  # a model has few shapes, and a test suite hardly more
def known_text_and_bytes(dtype: torch.dtype, sizes: Any, strides: Any) -> tuple[str, int]:
    """Write and count as `text_and_bytes` does; raise TypeError for symbolic sizes."""
    return _text(dtype, sizes, strides), _extent(sizes, strides) * dtype.itemsize


def _text(dtype: torch.dtype, sizes: Any, strides: Any) -> str:
    return f"{dtype_name(dtype)}[{', '.join(map(str, sizes))}]{_layout_text(sizes, strides)}"


def dtype_name(dtype: torch.dtype) -> str:
    """Give the canonical name of a dtype: float32, also for torch.float."""
    return str(dtype).removeprefix("torch.")


def value_of(meta: Mapping[str, Any]) -> str | None:
    """Describe the value that a node's meta describes; None where it describes none."""
    for key in META_KEYS:
        value = meta.get(key)
        if value is not None:
            return value_text(value)
    return None


def value_text(value: Any) -> str:
    """Describe tensors in nested tuples, lists and dicts; what is no tensor is described by its type."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return tensor_text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key_text(key)}: {value_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(value_text, value))}{',' if len(value) == 1 else ''})"
    return "None" if value is None else type(value).__name__


def _key_text(key: object) -> str:
    return string_text(key) if isinstance(key, str) else str(key)


def constant_text(tensor: torch.Tensor, level: str) -> str | None:
    """Describe the content of a tensor at a level; None where there is none to describe or none is wanted."""
    if level == "shape" or not _holds_values(tensor):
        return None
    scales = _scales_text(tensor, level) if tensor.is_quantized else ""
    values = _plain(tensor.detach())
    is_exact = level == "exact" or not (values.is_floating_point() or values.is_complex())
    if values.numel() <= MOST_VALUES_IN_FULL:
        text = _nested_text(values, is_exact)
    else:
        statistics = _statistics(values)
        text = ", ".join([f"sha256={digest(values)}", *statistics] if is_exact else [*statistics, _sketch(values)])
    if not is_exact:
        text = f"close({text})"
    text = scales + text
    return text if tensor.layout is torch.strided else f"{str(tensor.layout).removeprefix('torch.')}({text})"


def computed_text(tensor: torch.Tensor, level: str, known: dict[Hashable, str | None]) -> str | None:
    """Describe the content of a buffer outside the state dict. Floats are rounded: they are computed by torch.

    Because many layers hold equal tables, the texts of large ones are kept in `known`.
    """
    if level == "shape" or not _holds_values(tensor):
        return None
    if tensor.numel() <= MOST_VALUES_IN_FULL or tensor.layout is not torch.strided:
        return constant_text(tensor, "close")
    key = tensor.dtype, tensor.shape, digest(_plain(tensor.detach()))
    if key not in known:
        known[key] = constant_text(tensor, "close")
    return known[key]


def _scales_text(tensor: torch.Tensor, level: str) -> str:
    """Describe what the whole numbers of a quantized tensor stand for."""
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        scale = tensor.q_scale()
        return f"scale={float_text(scale) if level == 'exact' else _close(scale)}, zero_point={tensor.q_zero_point()}, "
    scales, zero_points = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return f"scale={constant_text(scales, level)}, zero_point={constant_text(zero_points, level)}, "


def digest(tensor: torch.Tensor) -> str:
    """Give the sha256 of a tensor's elements in row-major order."""
    contiguous = tensor.contiguous()
    size = contiguous.numel() * contiguous.element_size()
    # Not through numpy: torch can be installed without it.
    return hashlib.sha256(ctypes.string_at(contiguous.data_ptr(), size)).hexdigest()


def _holds_values(tensor: torch.Tensor) -> bool:
    # Fake tensors say "cpu" and hold nothing.
    if tensor.device.type == "meta" or hasattr(tensor, "fake_mode"):
        return False
    try:
        tensor.untyped_storage().data_ptr()
    except NotImplementedError:  # sparse: there are several storages
        return True
    except RuntimeError:  # what torch.func makes while it makes a graph functional says "cpu", too
        return False
    return True


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return tensor.cpu().resolve_conj().resolve_neg()


def _nested_text(tensor: torch.Tensor, is_exact: bool) -> str:
    return _nest(iter([_number_text(value, tensor.dtype, is_exact) for value in _numbers(tensor)]), tensor.shape)


def _nest(texts: Iterator[str], shape: Sequence[int]) -> str:
    return f"[{', '.join(_nest(texts, shape[1:]) for _ in range(shape[0]))}]" if shape else next(texts)


def _numbers(tensor: torch.Tensor) -> list[Any]:
    if tensor.is_floating_point() and tensor.element_size() == 1:
        tensor = tensor.float()  # the eight-bit floats have no Python numbers of their own
    numbers: list[Any] = tensor.reshape(-1).tolist()
    return numbers


def _doubles(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor.float() if tensor.element_size() == 1 else tensor).double().reshape(-1)


def _number_text(value: Any, dtype: torch.dtype, is_exact: bool) -> str:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return int_text(value)
    if isinstance(value, complex):
        parts = [_close(value.real), _close(value.imag)]
        return complex_text(value) if is_exact else f"complex({', '.join(parts)})"
    return _shortest(value, _PACKED.get(dtype)) if is_exact else _close(value)


def _shortest(value: float, packed: str | None) -> str:
    """Write a float as the shortest decimal that its format reads back: 0.1, not 0.10000000149011612."""
    if packed is None or not math.isfinite(value):
        return float_text(value)
    bits = struct.pack(packed, value)
    for digits in range(4, 9):
        candidate = float(f"{value:.{digits}g}")
        with contextlib.suppress(OverflowError):  # rounding the largest number up leaves the format
            if struct.pack(packed, candidate) == bits:
                return float_text(candidate)
    return float_text(float(f"{value:.9g}"))  # tells every float32 apart


def _close(value: float) -> str:
    # Adding zero drops the sign of zero, which is no difference of size.
    return float_text(float(f"{value:.{DIGITS_THAT_ARE_CLOSE}g}") + 0.0)


def _statistics(tensor: torch.Tensor) -> list[str]:
    if tensor.dtype is torch.bool:
        return [f"true={int(tensor.sum())}"]
    if tensor.is_complex():
        return _float_statistics(torch.view_as_real(tensor))
    if tensor.is_floating_point():
        return _float_statistics(tensor)
    numbers = _numbers(tensor)
    return [f"min={min(numbers)}", f"max={max(numbers)}"]


def _float_statistics(tensor: torch.Tensor) -> list[str]:
    """Summarise what is finite; summed exactly, because torch's sums depend on the processor and its threads."""
    numbers = _doubles(tensor)
    finite = numbers[numbers.isfinite()]
    parts = [f"nonfinite={len(numbers) - len(finite)}"] if len(finite) < len(numbers) else []
    if not len(finite):
        return parts
    # Divided by the largest first, so that no square and no sum overflows.
    scale = float(finite.abs().max()) or 1.0
    norm = math.sqrt(math.fsum((finite / scale).square().tolist())) * scale
    mean = math.fsum((finite / len(finite)).tolist())
    texts = {"min": float(finite.min()), "max": float(finite.max()), "mean": mean, "norm": norm}
    return parts + [f"{name}={_close(number)}" for name, number in texts.items()]


def _sketch(tensor: torch.Tensor) -> str:
    """Summarise the places of the finite numbers: their sum, with a weight for each place, by their norm.

    Another order gives another sum, and other sizes of all numbers give the same.
    """
    numbers = _doubles(torch.view_as_real(tensor) if tensor.is_complex() else tensor)
    finite = torch.where(numbers.isfinite(), numbers, 0.0)
    finite = finite / (float(finite.abs().max()) or 1.0)
    norm = math.sqrt(math.fsum(finite.square().tolist())) or 1.0
    weights = (torch.arange(len(finite), device="cpu") * _STEP % _WEIGHTS).double() / _WEIGHTS - 0.5
    weighted = math.fsum((finite * weights).tolist())
    return f"sketch={float_text(round(weighted / norm, 3) + 0.0)}"


def inline_tensor_text(tensor: torch.Tensor, level: str, form: str = "") -> str:
    """Describe a tensor that stands as an argument itself: shape, dtype, form and content."""
    kind = "parameter" if isinstance(tensor, torch.nn.Parameter) else "tensor"
    parts = [dtype_name(tensor.dtype), f"[{', '.join(map(str, tensor.shape))}]", form]
    content = constant_text(tensor, level)
    return f"{kind}({''.join(parts)}{f', {content}' if content is not None else ''})"


# Layouts: how a tensor lies in memory; nothing where it is contiguous.


def _strides_of_metadata(metadata: Any) -> Any:
    """Return the strides that metadata of a tensor keeps as an attribute; () of tensors that have none, sparse ones."""
    strides = getattr(metadata, "stride", ())
    return strides if isinstance(strides, Sequence) else ()


def _layout_text(sizes: Sequence[Any], strides: Sequence[Any]) -> str:
    """Write a layout: "", " channels_last" or " strides=(1, 4)"; "" where strides are not known.

    The stride of a dimension of size 1 means nothing and is written `*`. Symbolic sizes get no guards.
    """
    count = len(sizes)
    if len(strides) != count:
        return ""
    sizes, strides = [_expression(size) for size in sizes], [_expression(stride) for stride in strides]
    if 0 in sizes or _is_dense(sizes, strides, range(count - 1, -1, -1)):
        return ""
    name, order = _CHANNELS_LAST.get(count, ("", ()))
    if name and _is_dense(sizes, strides, order):
        return f" {name}"
    shown = ["*" if size == 1 else str(stride) for size, stride in zip(sizes, strides, strict=True)]
    return f" strides=({', '.join(shown)}{',' if count == 1 else ''})"


def _extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Count the elements from a tensor's first to its last, which steps between them make more, or fewer.

    0 where there are none, or where sizes or strides are not known.
    """
    if len(strides) != len(sizes) or not all(type(number) is int for number in (*sizes, *strides)) or 0 in sizes:
        return 0
    return 1 + sum([(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)])


def _expression(size: Any) -> Any:
    """Return the expression of a symbolic size: unlike the size, it can be compared without consequences."""
    return getattr(size.node, "expr", size) if isinstance(size, torch.SymInt) else size


def _is_dense(sizes: Sequence[Any], strides: Sequence[Any], order: Sequence[int]) -> bool:
    """Tell whether elements lie without gaps, in an order of dimensions that begins with the innermost."""
    expected: Any = 1
    for dimension in order:
        if sizes[dimension] == 1:
            continue
        if strides[dimension] != expected:
            return False
        expected = expected * sizes[dimension]
    return True
