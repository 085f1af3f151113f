"""Writes of tensors, as torch's dispatcher shows them before they happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from fxcore.operators.effects import function_effects


class OperatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's
    """Sees operators of ATen before they run. Higher-order operators run as without the mode."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports Dynamo at the first operator, which takes longer than a trace

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        if not hasattr(TorchDispatchMode, "supports_higher_order_operators"):  # older releases keep a rule per operator
            for operator in torch._ops._higher_order_ops.values():
                operator.python_key_table.setdefault(type(self), _passed_by(operator))

    def run(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator of ATen."""
        return operator(*args, **kwargs)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if isinstance(func, HigherOrderOperator):
            return func(*args, **(kwargs or {}))
        return self.run(func, args, kwargs or {})


def _passed_by(operator: Any) -> Callable[..., Any]:
    return lambda mode, *args, **kwargs: operator(*args, **kwargs)


class CopyBeforeWrite(OperatorMode):  # type: ignore[no-untyped-call]  # torch's
    """Gives each tensor that an operator writes to a function first."""

    def __init__(self, copy: Callable[[torch.Tensor], None]) -> None:
        super().__init__()
        self._copy = copy

    def run(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator of ATen."""
        for tensor in written_by(operator, args, kwargs):
            self._copy(tensor)
        return operator(*args, **kwargs)


def written_by(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Return the tensors that a call of an operator of ATen writes."""
    effects = function_effects(operator, None)
    if effects.is_plain:
        return []
    found: list[Any] = []
    for value in effects.written(args, kwargs):
        found += value if isinstance(value, (list, tuple)) else [value]
    return [each for each in found if isinstance(each, torch.Tensor)]
