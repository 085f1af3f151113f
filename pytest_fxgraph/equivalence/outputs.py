"""Compare two nested values, leaf by leaf: structure, tensor facts, values."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from fxcore.state.containers import shown
from fxcore.state.storage import has_values, wrapped_tensors
from pytest_fxgraph.choices import CHECKS, Check
from pytest_fxgraph.equivalence.error_statistics import ErrorStatistics, agree, measure
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.nested_values import SINGLES, has_equality, parts_of
from pytest_fxgraph.equivalence.tolerance import Tolerance, ToleranceRule
from pytest_fxgraph.errors import UncomparableError
from pytest_fxgraph.report.printable import listed

# A user's function of both values and their path. It returns "" for equal values, the difference in words, or None to
# leave the comparison to the check.
ValueComparison = Callable[[Any, Any, str], "str | None"]


@dataclasses.dataclass(frozen=True)
class OutputComparison:
    """The tolerances and the checks for two nested values."""

    rule: ToleranceRule
    requires_grad: bool = False  # compare it too; only if the user asked for gradients
    custom_comparison: ValueComparison | None = None  # the user's function, asked first about each leaf and container
    checks: frozenset[Check] = frozenset(CHECKS)  # structure, types and shapes are always compared

    def of_values(self) -> OutputComparison:
        """Return the comparison for tensors that are always compared by value, for example state."""
        return dataclasses.replace(self, checks=self.checks | {"values"})

    def compare(
        self, expected: object, obtained: object, path: str, entered: frozenset[int] = frozenset()
    ) -> Iterator[Mismatch]:
        """Yield every difference of two nested values at `path`; `entered` holds the containers around them."""
        answer = self.custom_comparison(expected, obtained, path) if self.custom_comparison else None
        if answer is not None:
            if not isinstance(answer, str):  # False would count as equal, because it is as empty as ""
                what = "expected '' for equal outputs, the difference in words, or None"
                raise UncomparableError(f"pytest_fxgraph_compare_outputs gave {answer!r:.80} for {path}; {what}")
            if answer and "values" in self.checks:
                yield Mismatch("value", path, answer)
            return
        if isinstance(expected, torch.Tensor) and isinstance(obtained, torch.Tensor):
            yield from self.compare_tensors(expected, obtained, path)
            return
        if _container_type(expected) is not _container_type(obtained):
            yield Mismatch(
                "structure", path, f"is {_describe_type(expected)} in eager, {_describe_type(obtained)} in the graph"
            )
            return
        expected_parts, obtained_parts = parts_of(expected), parts_of(obtained)
        if expected_parts is None or obtained_parts is None:
            yield from self._compare_leaves(expected, obtained, path)
        elif id(expected) not in entered:  # a value inside itself was compared where it began
            yield from self._compare_parts(expected_parts, obtained_parts, path, entered | {id(expected)})

    def _compare_parts(
        self, expected: list[tuple[str, Any]], obtained: list[tuple[str, Any]], path: str, entered: frozenset[int]
    ) -> Iterator[Mismatch]:
        steps, obtained_steps = [step for step, _ in expected], [step for step, _ in obtained]
        if len(set(steps)) < len(steps) or len(set(obtained_steps)) < len(obtained_steps):
            yield Mismatch("structure", path, "has two keys that print alike, so its parts cannot be told apart")
            return
        obtained_by_step = dict(obtained)
        for step, part in expected:
            if step in obtained_by_step:
                yield from self.compare(part, obtained_by_step[step], path + step, entered)
        missing = [step for step in steps if step not in obtained_by_step]
        extra = [step for step in obtained_steps if step not in set(steps)]
        if missing or extra:
            yield Mismatch("structure", path, _describe_part_counts(len(steps), len(obtained_steps), missing, extra))
        elif steps != obtained_steps:
            yield Mismatch("structure", path, f"has its keys in the order {listed(steps, 5)} in eager, "
                                              f"{listed(obtained_steps, 5)} in the graph")  # fmt: skip

    def _compare_leaves(self, expected: Any, obtained: Any, path: str) -> Iterator[Mismatch]:
        values, others = _as_tensor(expected), _as_tensor(obtained)
        if values is not None and others is not None:
            yield from self.compare_tensors(values, others, path)
        elif isinstance(expected, torch.nn.Module) and expected is not obtained:
            yield from self.compare(dict(expected.state_dict()), dict(obtained.state_dict()), f"{path}.state_dict()")
        elif "values" in self.checks and not self._leaves_agree(expected, obtained, path):
            yield Mismatch("value", path, f"is {shown(expected)} in eager, {shown(obtained)} in the graph")

    def _leaves_agree(self, expected: Any, obtained: Any, path: str) -> bool:
        if isinstance(expected, (float, complex)):
            return _numbers_agree(expected, obtained, self.rule.for_path(path).for_number(expected))
        if expected is obtained:
            return True
        if isinstance(expected, SINGLES):
            return False
        if not has_equality(expected):
            raise UncomparableError(_refusal(expected, path))
        with contextlib.suppress(Exception):  # whatever an == of the user's may raise; that of arrays gives an array
            return bool(expected == obtained)
        with contextlib.suppress(Exception):  # also raised for arrays of shapes that do not fit
            return bool((expected == obtained).all())
        return False

    def compare_tensors(self, expected: torch.Tensor, obtained: torch.Tensor, path: str) -> Iterator[Mismatch]:
        """Yield the differences of two tensors: type, layout, shape, dtype, device, strides, then comparable values."""
        facts = list(_differing_facts(expected, obtained, path, self.checks))
        yield from facts
        if self.requires_grad and "requires_grad" in self.checks and expected.requires_grad != obtained.requires_grad:
            yield Mismatch(
                "requires_grad",
                path,
                f"has requires_grad={expected.requires_grad} in eager, {obtained.requires_grad} in the graph",
            )
        if "values" in self.checks and all(fact.kind == "stride" for fact in facts):
            yield from self._compare_values(expected, obtained, path)

    def _compare_values(self, expected: torch.Tensor, obtained: torch.Tensor, path: str) -> Iterator[Mismatch]:
        if not has_values(expected) or not expected.numel():  # `obtained` is on the same device
            return
        if expected.is_nested:
            for index, parts in enumerate(zip(expected.unbind(), obtained.unbind(), strict=True)):
                yield from self.compare_tensors(*parts, f"{path}[{index}]")
            return
        if wrapped := wrapped_tensors(expected):
            others = wrapped_tensors(obtained)
            for name in wrapped:
                yield from self.compare_tensors(wrapped[name], others[name], f"{path}.{name}")
            return
        statistics = _measure_tensors(expected, obtained, self.rule.for_path(path))
        if statistics is not None:
            yield Mismatch("value", path, "has other values in the graph than in eager", statistics)

    def would_match_zeros(self, expected: object, path: str, *, is_output: bool = True) -> bool:
        """Return whether zeros would pass for an expected leaf, or any number because no expected value is finite.

        Integers and bools are compared exactly, so zeros do not count as a match of them.
        """
        if not isinstance(expected, torch.Tensor):
            return False
        if not has_values(expected) or not expected.numel():
            return True
        custom = self.custom_comparison if is_output else None
        if custom is not None and custom(expected, expected, path) is not None:
            return False  # the user's function has a rule of its own
        parts = expected.unbind() if expected.is_nested else wrapped_tensors(expected).values()
        if parts:
            return all(self.would_match_zeros(part, path, is_output=False) for part in parts)
        if not (expected.is_floating_point() or expected.is_complex() or expected.is_quantized):
            return False
        values = dense(expected)
        zeros, tolerance = torch.zeros_like(values), self.rule.for_path(path).for_tensor(values, expected.dtype)
        return _are_equal(values, zeros) or agree(values, zeros, tolerance) or not has_finite_value(values)


EXACTLY = OutputComparison(ToleranceRule(0.0, 0.0))


def _measure_tensors(expected: torch.Tensor, obtained: torch.Tensor, rule: ToleranceRule) -> ErrorStatistics | None:
    """Measure the error of two tensors of the same shape, dtype and layout; None if they agree."""
    dtype, expected, obtained = expected.dtype, dense(expected), dense(obtained)
    # Try the cheapest comparison first, because most values are equal.
    if _are_equal(expected, obtained):
        return None
    return measure(expected, obtained, rule.for_tensor(expected, dtype))


def _as_tensor(value: object) -> torch.Tensor | None:
    """Return an array or number of numpy as a tensor; None for other values and for dtypes that torch does not have."""
    numpy = sys.modules.get("numpy")  # a model that returns an array has imported numpy
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
        return None
    try:
        return torch.from_numpy(numpy.array(value))
    except TypeError:
        return None


def _refusal(value: object, path: str) -> str:
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    return (
        f"cannot compare {path}: an object of {name} has neither attributes nor an == of its own, so that only its "
        "type is known. Return what is in it, or compare it in conftest.py:\n"
        "  def pytest_fxgraph_compare_outputs(expected, obtained, path):\n"
        f"      if path == {path!r}:\n"
        "          return '' if ... else 'what differs'"
    )


def _numbers_agree(expected: complex, obtained: complex, tolerance: Tolerance) -> bool:
    """Return whether two Python numbers agree, NaN with NaN and infinity with the same infinity."""
    if expected == obtained or (expected != expected and obtained != obtained):
        return True
    distance = abs(obtained - expected)
    return math.isfinite(distance) and distance <= tolerance.atol + tolerance.rtol * abs(expected)


def _container_type(value: object) -> type:
    """Return the type that a container counts as: a graph's immutable list is a list."""
    for plain in (list, dict):
        if isinstance(value, plain) and type(value).__module__.endswith(".immutable_collections"):
            return plain
    return type(value)


def _differing_facts(
    expected: torch.Tensor, obtained: torch.Tensor, path: str, checks: frozenset[Check]
) -> Iterator[Mismatch]:
    for kind, name, read in _FACTS:
        fact, other = read(expected), read(obtained)
        # A tensor on the meta device has no values, so its facts are always compared.
        if fact != other and (kind not in CHECKS or kind in checks or expected.is_meta or obtained.is_meta):
            yield Mismatch(kind, path, f"has {name} {fact} in eager, {other} in the graph")
            if kind in ("structure", "layout", "shape"):
                return
    # Only strided tensors have strides, and the stride of a dimension with one element means nothing.
    if "strides" not in checks or expected.layout != obtained.layout:
        return
    is_strided = expected.layout is torch.strided and expected.numel() and not expected.is_nested
    if is_strided and _strides(expected) != _strides(obtained):
        yield Mismatch("stride", path, f"has stride {expected.stride()} in eager, {obtained.stride()} in the graph")


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1)


def _shape(tensor: torch.Tensor) -> tuple[int, ...] | str:
    return "nested" if tensor.is_nested else tuple(tensor.shape)


def _type(tensor: torch.Tensor) -> str:
    # A parameter that one run returns as it is and the other detached differs in requires_grad instead.
    kind = torch.Tensor if isinstance(tensor, torch.nn.Parameter) else type(tensor)
    return kind.__qualname__


def _quantization(tensor: torch.Tensor) -> str:
    """Describe how whole numbers stand for values: another zero point gives other numbers for the same values."""
    if not tensor.is_quantized:
        return "none"
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return f"scale {tensor.q_scale():.6g}, zero point {tensor.q_zero_point()}"
    scales, zero_points = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    numbers = [f"{scale:.6g}/{zero_point:g}" for scale, zero_point in zip(scales, zero_points, strict=True)]
    return f"axis {tensor.q_per_channel_axis()}, scale/zero point {', '.join(numbers)}"


_FACTS: tuple[tuple[str, str, Callable[[torch.Tensor], object]], ...] = (
    ("structure", "type", _type),
    ("layout", "layout", lambda tensor: tensor.layout),
    ("shape", "shape", _shape),
    ("dtype", "dtype", lambda tensor: tensor.dtype),
    ("device", "device", lambda tensor: tensor.device),
    ("dtype", "quantization", _quantization),
)


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values of a tensor as a strided one, dequantized, without its history."""
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if str(tensor.dtype).startswith("torch.bits"):  # torch stores these dtypes and cannot compare them
        return tensor.contiguous().view(torch.uint8)
    return tensor.dequantize() if tensor.is_quantized else tensor


def has_finite_value(values: torch.Tensor) -> bool:
    """Return whether a strided tensor holds a finite value; True where its type cannot tell."""
    try:
        return bool(values.isfinite().any())
    except (RuntimeError, NotImplementedError):  # some 8-bit types
        return True


def _are_equal(expected: torch.Tensor, obtained: torch.Tensor) -> bool:
    try:
        return torch.equal(expected, obtained)
    except (RuntimeError, NotImplementedError):  # two devices; some 8-bit types know no comparison
        return False


def _describe_part_counts(expected: int, obtained: int, missing: list[str], extra: list[str]) -> str:
    text = f"has {expected} parts in eager, {obtained} in the graph"
    if missing:
        text += f"; the graph lacks {listed(missing, 5)}"
    if extra:
        text += f"; eager lacks {listed(extra, 5)}"
    return text


def _describe_type(value: object) -> str:
    kind = _container_type(value)
    if value is None:
        return "None"
    parts = parts_of(value) if isinstance(value, (tuple, list, Mapping)) else None
    return f"{kind.__name__} of {len(parts)}" if parts is not None else kind.__name__
