"""Observers that choose scale and zero point of values: torch.ao's observers, and one by percentiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch.ao.quantization import observer

from fxcore.errors import PassArgumentError

__all__ = ["MakeObserver", "PercentileObserver", "activation_observer", "weight_observer"]

MakeObserver = Callable[[], Any]


class PercentileObserver(observer.MinMaxObserver):
    """An observer of the range of most values, so that a few outliers do not decide the scale.

    Each batch has a range, and the widest range counts. In large batches, the observer looks at every n-th value.
    """

    def __init__(self, percentile: float = 99.9, most: int = 1_000_000, **options: Any) -> None:
        """Leave out the values beyond `percentile` at either end."""
        super().__init__(**options)
        if not 50 < percentile <= 100:
            raise PassArgumentError(f"a percentile of {percentile} leaves nothing; give one from 50 to 100, as 99.9")
        self.percentile = percentile
        self.most = most

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        """Observe a batch and return it."""
        if x_orig.numel():
            values = x_orig.detach().to(self.min_val.dtype).flatten()
            values = values[:: -(-values.numel() // self.most)]
            left_out = round((1 - self.percentile / 100) * (values.numel() - 1))
            low = values.kthvalue(1 + left_out).values
            high = values.kthvalue(values.numel() - left_out).values
            self.min_val.copy_(torch.minimum(low, self.min_val))
            self.max_val.copy_(torch.maximum(high, self.max_val))
        return x_orig


_ACTIVATIONS: dict[str, Any] = {
    "histogram": observer.HistogramObserver,
    "minmax": observer.MinMaxObserver,
    "moving_average": observer.MovingAverageMinMaxObserver,
    "percentile": PercentileObserver,
}


def activation_observer(
    kind: Literal["histogram", "minmax", "moving_average", "percentile"] = "histogram", **options: Any
) -> MakeObserver:
    """Return a maker of observers of activations, with eight unsigned bits and one scale per tensor.

    If the engine could overflow with eight bits, seven bits are used (`reduce_range`), as in torch's own settings.
    """
    if kind not in _ACTIVATIONS:
        raise PassArgumentError(f"no observer is called {kind!r}; there are {', '.join(_ACTIVATIONS)}")
    reduces = torch.backends.quantized.engine in ("fbgemm", "x86")
    settings = {"dtype": torch.quint8, "reduce_range": reduces, **options}
    return lambda: _ACTIVATIONS[kind](**settings)


def weight_observer(kind: Literal["per_channel", "per_tensor"] = "per_channel", **options: Any) -> MakeObserver:
    """Return a maker of observers of weights, with eight signed bits, symmetric around zero."""
    if kind == "per_tensor":
        return lambda: observer.MinMaxObserver(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, **options)
    if kind != "per_channel":
        raise PassArgumentError(f"weights are quantized per_channel or per_tensor, not {kind!r}")
    return lambda: observer.PerChannelMinMaxObserver(dtype=torch.qint8, qscheme=torch.per_channel_symmetric, **options)
