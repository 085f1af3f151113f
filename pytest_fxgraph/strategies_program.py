"""A random module as plain data, and the module that it describes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pytest_fxgraph.strategies_operations import OPERATIONS

OUTPUTS = ("last", "pair", "list", "dict")


@dataclass(frozen=True)
class Step:
    """One operation; operands count back from the newest value, round and round."""

    operation: str
    x: int
    y: int


@dataclass(frozen=True)
class Program:
    """What a random module computes from its inputs, and the seed of its parameters."""

    inputs: int
    steps: tuple[Step, ...]
    output: str  # one of OUTPUTS
    seed: int


class RandomModule(nn.Module):
    """The module that a program describes; its repr is the program, written as one would write it."""

    def __init__(self, program: Program) -> None:
        """Make the layers; their parameters come from the program's seed, torch's generator stays as it is."""
        super().__init__()
        self.program = program
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(program.seed)
            for index, step in enumerate(program.steps):
                layer = OPERATIONS[step.operation].layer
                if layer is not None:
                    self.add_module(f"layer{index}", _with_statistics(layer()))

    def forward(self, x: Any, *others: Any) -> Any:
        """Run the steps."""
        values = [x, *others]
        for index, step in enumerate(self.program.steps):
            layer = self._modules.get(f"layer{index}")
            one, other = (values[-1 - back % len(values)] for back in (step.x, step.y))
            values.append(OPERATIONS[step.operation].apply(layer, one, other))
        return _returned(self.program.output, values)

    def __repr__(self) -> str:
        names = [f"x{index}" for index in range(self.program.inputs)]
        lines = [f"def forward(self, {', '.join(names)}):  # parameters from seed {self.program.seed}"]
        for index, step in enumerate(self.program.steps):
            x, y = (names[-1 - back % len(names)] for back in (step.x, step.y))
            operation = OPERATIONS[step.operation]
            text = operation.text.format(x=x, y=y)
            if operation.layer is not None:
                text = f"self.layer{index}({x})  # {text.partition('(')[0]}"
            names.append(f"v{index}")
            lines.append(f"    v{index} = {text}")
        return "\n".join([*lines, f"    return {_returned(self.program.output, names)}"]).replace("'", "")


class OneInput(RandomModule):
    """A random module of one input: its forward names its parameters, for a trace cannot see through `*others`."""

    def forward(self, x: Any) -> Any:
        """Run the steps."""
        return super().forward(x)


class TwoInputs(RandomModule):
    """A random module of two inputs."""

    def forward(self, x: Any, y: Any) -> Any:
        """Run the steps."""
        return super().forward(x, y)


def module_of(program: Program) -> RandomModule:
    """Make the module of a program."""
    return (OneInput if program.inputs == 1 else TwoInputs)(program)


def _returned(output: str, values: list[Any]) -> Any:
    last, middle = values[-1], values[len(values) // 2]
    return {"last": last, "pair": (last, middle), "list": [last, [middle]], "dict": {"last": last, "middle": middle}}[
        output
    ]


def _with_statistics(layer: nn.Module) -> nn.Module:
    """Give a batch norm statistics that are not the initial ones, with which it would do next to nothing."""
    if isinstance(layer, nn.BatchNorm2d):
        with torch.no_grad():
            for values in (layer.running_mean, layer.bias):
                values.uniform_(-0.5, 0.5)  # type: ignore[union-attr]  # torch types them as possibly missing
            for values in (layer.running_var, layer.weight):
                values.uniform_(0.5, 1.5)  # type: ignore[union-attr]  # as above
    return layer
