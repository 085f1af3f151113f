"""An edit of a model by an author who has not read the comparison: the model before and after a pull request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Make = Callable[[], Any]


@dataclass(frozen=True)
class Edit:
    """Two makers of a subject, and the options of the comparison by which the docs promise the verdict."""

    name: str
    theme: str
    is_harmful: bool
    before: Make
    after: Make
    options: Mapping[str, Any]


EDITS: list[Edit] = []


class Holder(nn.Module):
    """A model of one layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Any:
        return self.layer(x)


def layers(theme: str, pairs: Mapping[str, tuple[Make, Make]], *, harmful: bool = True, **options: Any) -> None:
    """Enter edits of one layer of a model."""
    for name, (before, after) in pairs.items():
        EDITS.append(Edit(name, theme, harmful, _holding(before), _holding(after), options))


def _holding(layer: Make) -> Make:
    return lambda: Holder(layer())


def functions(theme: str, pairs: Mapping[str, tuple[Any, Any]], *, harmful: bool = True, **options: Any) -> None:
    """Enter edits of a function, or of the statements of a forward."""
    for name, (before, after) in pairs.items():
        EDITS.append(Edit(name, theme, harmful, _giving(before), _giving(after), options))


def _giving(function: Any) -> Make:
    return lambda: function


def models(theme: str, pairs: Mapping[str, tuple[Make, Make]], *, harmful: bool = True, **options: Any) -> None:
    """Enter edits of whole models."""
    for name, (before, after) in pairs.items():
        EDITS.append(Edit(name, theme, harmful, before, after, options))


def changes(
    theme: str, make: Make, table: Mapping[str, Callable[[Any], Any]], *, harmful: bool = True, **options: Any
) -> None:
    """Enter edits that change a built model; a change that returns nothing changed it in place."""
    for name, change in table.items():
        EDITS.append(Edit(name, theme, harmful, make, _changed(make, change), options))


def _changed(make: Make, change: Callable[[Any], Any]) -> Make:
    def after() -> Any:
        model = make()
        change(model)
        return model

    return after


def t(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
