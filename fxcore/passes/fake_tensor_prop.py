"""Fake tensors for every value: shapes, strides, devices and aliasing without computing anything."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from fxcore.errors import InterpreterError
from fxcore.interpreter import Interpreter
from fxcore.node import Node
from fxcore.node_data.arguments import map_aggregate
from fxcore.uninitialized import refuse_uninitialized

__all__ = ["FakeTensorProp"]

_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)


class FakeTensorProp(Interpreter):
    """Runs a graph on fake tensors, and notes each node's value in `node.meta["val"]`."""

    def __init__(self, module: nn.Module, mode: FakeTensorMode | None = None) -> None:
        """Prepare to run `module` under `mode`, or under a new mode that takes the module's real parameters too."""
        super().__init__(module)
        # torch.fx's own default refuses real parameters, and so every module with parameters.
        self._mode = FakeTensorMode(allow_non_fake_inputs=True) if mode is None else mode
        self._mode.epoch += 1
        self._mode.reset_nt_tensor_id_counter()

    def run_node(self, n: Node) -> Any:
        """Run one node and note its value."""
        result = super().run_node(n)
        noted = map_aggregate(result, self._snapshot)
        if noted is not None:
            n.meta["val"] = noted
        return result

    def _snapshot(self, leaf: Any) -> Any:
        """Return the note for `leaf`. It is detached, so that later nodes that mutate `leaf` do not change the note."""
        if isinstance(leaf, FakeTensor):
            return leaf.detach()
        if isinstance(leaf, torch.Tensor):
            return self._mode.from_tensor(leaf, static_shapes=True).detach()
        return leaf if isinstance(leaf, _NUMBERS) else None

    def propagate(self, *args: Any) -> Any:
        """Run the graph on fakes of `args`, note the value of every node, and return the graph's result."""
        fakes = [self._mode.from_tensor(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]
        return self.propagate_dont_convert_inputs(*fakes)

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Run the graph on `args`. Their tensors are fake tensors of the mode already, and stay on their devices.

        Raises InterpreterError (a RuntimeError) if a lazy module has no shapes yet.
        """
        refuse_uninitialized(self.module, "", "cannot find the shapes of", InterpreterError)
        devices = [(arg, arg.fake_device) for arg in args if isinstance(arg, FakeTensor)]
        try:
            with self._mode:
                return super().run(*args)
        finally:
            for fake, device in devices:
                fake.fake_device = device
