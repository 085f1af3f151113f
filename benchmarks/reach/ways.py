"""The ways to get a graph of a model that are compared."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import fxcore

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class NotThereError(Exception):
    """This version of fxcore has no such way."""


@dataclass(frozen=True)
class Way:
    """`capture` returns a module that can be called like the model, and the number of its nodes and guards."""

    title: str
    capture: Callable[[nn.Module, Arguments], tuple[nn.Module, int, int]]


def _sizes(module: Any) -> tuple[nn.Module, int, int]:
    return module, len(module.graph.nodes), len(getattr(module.graph, "guards", ()))


def _torch_fx(model: nn.Module, arguments: Arguments) -> tuple[nn.Module, int, int]:
    return _sizes(torch.fx.symbolic_trace(model))


def _plain(model: nn.Module, arguments: Arguments) -> tuple[nn.Module, int, int]:
    return _sizes(fxcore.symbolic_trace(model))


def _with_examples(model: nn.Module, arguments: Arguments, **options: Any) -> tuple[nn.Module, int, int]:
    parameters = inspect.signature(fxcore.symbolic_trace).parameters
    if missing := {"example_inputs", *options} - set(parameters):
        raise NotThereError(f"symbolic_trace has no parameter {', '.join(sorted(missing))}")
    if "verify" in parameters:
        options["verify"] = False  # the comparison that follows is the verification
    args, kwargs = arguments
    trace: Any = fxcore.symbolic_trace
    return _sizes(trace(model, example_inputs=args, example_kwargs=kwargs, **options))


def _auto(model: nn.Module, arguments: Arguments) -> tuple[nn.Module, int, int]:
    return _with_examples(model, arguments, leaf_modules="auto")


def _export(model: nn.Module, arguments: Arguments) -> tuple[nn.Module, int, int]:
    program = torch.export.export(model, *arguments, strict=False)
    return program.module(), len(program.graph.nodes), len(program.range_constraints)


WAYS = {
    "torch_fx": Way("torch.fx", _torch_fx),
    "plain": Way("fxcore, plain", _plain),
    "examples": Way("fxcore, with examples", _with_examples),
    "auto": Way("fxcore, auto leaves", _auto),
    "export": Way("torch.export", _export),
}
