"""A small model with the calls that a user makes of its graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

Factory = TypeVar("Factory", bound=Callable[..., Any])


@dataclass
class Call:
    """The arguments of one call, and the circumstances under which it is made."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    under: Callable[[], Any] = contextlib.nullcontext  # makes the context of the call
    train: bool | None = None  # the mode of the model; None leaves it
    before: Callable[[Any], object] | None = None  # changes the model before the call


def call(*args: Any, **kwargs: Any) -> Call:
    return Call(args, kwargs)


def under(context: Callable[[], Any], *args: Any, **kwargs: Any) -> Call:
    """Return a call that is made under `context()`."""
    return Call(args, kwargs, under=context)


def training(*args: Any, **kwargs: Any) -> Call:
    return Call(args, kwargs, train=True)


def evaluating(*args: Any, **kwargs: Any) -> Call:
    return Call(args, kwargs, train=False)


def after(change: Callable[[Any], object], *args: Any, **kwargs: Any) -> Call:
    """Return a call before which `change(model)` runs, on the eager model as on the model behind the graph."""
    return Call(args, kwargs, before=change)


@dataclass(frozen=True)
class Case:
    """A model and its calls; the first call is the example of the trace."""

    name: str
    theme: str
    model: Callable[[], Any]  # makes the model, or returns the function
    calls: Callable[[], list[Call]]  # makes fresh arguments at each call of it
    leave: Callable[[], object]  # puts back the globals that the model writes
    watch: Callable[[], object]  # returns a copy of the globals that the model writes


ALL: list[Case] = []


def nothing() -> None:
    pass


def case(
    calls: Callable[[], list[Call]],
    *,
    leave: Callable[[], object] = nothing,
    watch: Callable[[], object] = nothing,
) -> Callable[[Factory], Factory]:
    """Enter a module class or a function into the table of cases."""

    def enter(factory: Factory) -> Factory:
        theme = factory.__module__.rpartition(".")[2]
        make = factory if isinstance(factory, type) else (lambda: factory)
        ALL.append(Case(factory.__name__, theme, make, calls, leave, watch))
        return factory

    return enter


def t(*shape: int, seed: int = 0, grad: bool = False, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return a tensor of normal numbers that depend on the seed and the shape alone."""
    generator = torch.Generator().manual_seed(1000 * seed + 7)
    return torch.randn(shape, generator=generator).to(dtype).requires_grad_(grad)


def ints(*shape: int, seed: int = 0, high: int = 8) -> Tensor:
    generator = torch.Generator().manual_seed(1000 * seed + 7)
    return torch.randint(0, high, shape, generator=generator)


def flags(*values: int) -> Tensor:
    return torch.tensor([bool(value) for value in values])
