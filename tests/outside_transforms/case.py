"""A transform by an author who has not read the checks: a model, its rewritten form and the inputs of a test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

import fxcore

BOTH = {"modes": ("eval", "train")}
GRADS = {"grads": True}
TRAIN = {"modes": ("train",)}
SEARCH = {"search": 200}
STRICT = {"strict_inputs": True}


class Model(nn.Module):
    """A model from seed 0. `build` adds its layers; `rewritten` is its forward after the transform.

    A model with a static method `rewrite` has a pass in place of a rewritten forward.
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.build()

    def build(self) -> None:
        pass


Kind = TypeVar("Kind", bound=type[Model])


@dataclass(frozen=True)
class Case:
    """A model with its transform, and the options of its test.

    `needs` adds the options without which nobody can see a wrong transform, or those of the search for a right one;
    None for a right transform of one size, which a search must accuse.
    """

    name: str
    theme: str
    is_right: bool
    model: type[Model]
    inputs: Callable[[], Any]
    options: dict[str, Any]
    needs: dict[str, Any] | None

    def transform(self, model: Model) -> Callable[[fxcore.GraphModule], Any]:
        """Return the pass of the case; it shares the layers of the model."""
        if hasattr(model, "rewrite"):
            return model.rewrite  # type: ignore[no-any-return]
        return lambda graph_module: rewritten(model)


def rewritten(model: Model) -> fxcore.GraphModule:
    """Return the trace of the model's rewritten forward, with the model's own parameters."""
    kind = type(model)
    after = type(kind.__name__, (kind,), {"forward": kind.rewritten})  # type: ignore[attr-defined]
    module = after.__new__(after)
    module.__dict__.update(model.__dict__)
    return fxcore.symbolic_trace(module)


CASES: list[Case] = []


def wrong(inputs: Callable[[], Any], needs: dict[str, Any] | None = None, **options: Any) -> Callable[[Kind], Kind]:
    """Enter a wrong transform; without `needs`, the given options are enough to catch it."""
    return _enter(inputs, options, needs, is_right=False)


def right(
    inputs: Callable[[], Any], search: Literal["all", "finite", "none"] = "all", **options: Any
) -> Callable[[Kind], Kind]:
    """Enter a right transform; both modes and gradients are compared unless the options say otherwise.

    `search` says whether it is right for all values, for finite ones, or for the sizes of the inputs alone.
    """
    needs = None if search == "none" else {"search": 60, "search_values": search}
    return _enter(inputs, {**BOTH, **GRADS, **options}, needs, is_right=True)


def _enter(
    inputs: Callable[[], Any], options: dict[str, Any], needs: dict[str, Any] | None, is_right: bool
) -> Callable[[Kind], Kind]:
    def enter(model: Kind) -> Kind:
        theme = model.__module__.rpartition(".")[2]
        CASES.append(Case(model.__name__, theme, is_right, model, inputs, options, needs))
        return model

    return enter


def t(*shape: int, seed: int = 0) -> Tensor:
    """Return normal random numbers of a seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def integers(*shape: int, low: int = 0, high: int = 10, seed: int = 0) -> Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))
