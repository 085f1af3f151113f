"""The form of inputs: a tuple of positional arguments; a lone tensor means one argument."""

from __future__ import annotations

from typing import Any

import torch

from pytest_fxgraph.errors import InputsError


def positional_arguments(inputs: object, name: str = "inputs") -> tuple[Any, ...]:
    """Return the positional arguments; refuse lists and single values, which could be meant in two ways."""
    if isinstance(inputs, torch.Tensor):
        return (inputs,)
    # A named tuple is one value to its model, not a list of arguments.
    if isinstance(inputs, tuple) and not hasattr(inputs, "_fields"):
        return inputs
    raise InputsError(
        f"{name}: expected a tuple of positional arguments or a lone tensor, got {type(inputs).__name__}; "
        f"write {name}=(value,) for a model that takes it as its one argument"
    )
