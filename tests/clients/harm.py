"""Harms to a graph that a pass made: a node dropped, operands swapped, an argument or a weight changed."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

_NAMES_OF_OPERATORS = {operator.add: "add", operator.mul: "mul", operator.sub: "sub", operator.truediv: "div"}


@dataclass(frozen=True)
class Harm:
    """A change of a graph in place, and its description in a few words."""

    text: str
    change: Callable[[Any], None]  # takes a graph module, or of a harm to state also an exported program
    is_of_state: bool = False

    def __call__(self, made: Any) -> Any:
        """Change the graph of a module, a program, a set of programs or a PassResult, and return the same object."""
        program = made.exported_program() if hasattr(type(made), "methods") else made
        if self.is_of_state:
            self.change(program)
            return made
        module = getattr(program, "graph_module", program)
        self.change(module)
        module.graph.lint()
        module.recompile()
        return made


def name_of_operator(node: Any) -> str:
    """Return the name of a node's operator: a function's, a method's, or the class of a module."""
    if node.op == "call_module":
        return type(node.graph.owning_module.get_submodule(node.target)).__name__
    return _NAMES_OF_OPERATORS.get(node.target) or str(getattr(node.target, "__name__", node.target))


def calls_of(module: Any, word: str) -> list[Any]:
    """List the calls of a graph whose operator has a word in its name; raise LookupError if there are none."""
    calls = [node for node in module.graph.nodes if node.op.startswith("call_")]
    found = [node for node in calls if word in name_of_operator(node)]
    if not found:
        raise LookupError(f"no operator with {word!r}; there are {', '.join(map(name_of_operator, calls))}")
    return found


def dropped(word: str, place: int = 0) -> Harm:
    """Replace a call by its first input."""

    def change(module: Any) -> None:
        node = calls_of(module, word)[place]
        node.replace_all_uses_with(node.all_input_nodes[0])
        module.graph.erase_node(node)

    return Harm(f"`{word}` is dropped", change)


def swapped(word: str, place: int = 0) -> Harm:
    """Swap the first two operands of a call."""

    def change(module: Any) -> None:
        node = calls_of(module, word)[place]
        node.args = (node.args[1], node.args[0], *node.args[2:])

    return Harm(f"operands of `{word}` are swapped", change)


def argument(word: str, position: int | str, value: Any, place: int = 0) -> Harm:
    """Give a call another argument, by position or by keyword."""

    def change(module: Any) -> None:
        node = calls_of(module, word)[place]
        if isinstance(position, str):
            node.update_kwarg(position, value)
        else:
            node.update_arg(position, value)

    what = f"`{position}`" if isinstance(position, str) else f"argument {position}"
    return Harm(f"{what} of `{word}` becomes `{value}`", change)


def replaced(word: str, other: str) -> Harm:
    """Let the first call with a word call another operator of its namespace, or another function of torch."""

    def change(module: Any) -> None:
        node = calls_of(module, word)[0]
        node.target = _sibling(node.target, other)

    return Harm(f"`{word}` becomes `{other}`", change)


def _sibling(target: Any, other: str) -> Any:
    """Return the operator of another name in the dialect of the given one."""
    if type(target).__module__.startswith("executorch"):
        from executorch.exir.dialects._ops import ops

        return getattr(getattr(ops.edge.aten, other), target._overloadname)
    if isinstance(target, torch._ops.OpOverload):
        return getattr(getattr(torch.ops.aten, other), target._overloadname)
    return other if isinstance(target, str) else getattr(torch, other)


def scaled(part: str, factor: float = 1.5) -> Harm:
    """Multiply the first weight whose name has a part in it by a factor; of a program, the program's own."""

    def change(owner: Any) -> None:
        for name, tensor in _state_of(owner):
            if part in name and tensor.is_floating_point():
                with torch.no_grad():
                    tensor.mul_(factor)
                return
        raise LookupError(f"no state with {part!r}; there is {', '.join(name for name, _ in _state_of(owner))}")

    return Harm(f"`{part}` is multiplied by {factor}", change, is_of_state=True)


def _state_of(owner: Any) -> list[tuple[str, torch.Tensor]]:
    """List the tensors of a module or an exported program."""
    if hasattr(owner, "state_dict") and hasattr(owner, "constants"):
        return [*owner.state_dict.items(), *owner.constants.items()]
    return [*owner.named_parameters(), *owner.named_buffers()]
