"""Why a node of a graph cannot stand for a node of a pattern, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fxcore.argument_pairs import pair_by_parameter
from fxcore.callables import readable_target
from fxcore.errors import FxError
from fxcore.module_likeness import differing_settings, value_of
from fxcore.node import Node
from fxcore.node_text import format_argument

# An operator, a module or an attribute that is another one; arguments that do not pair up; another constant; a value
# that comes from elsewhere; a node that an earlier match took; a reader outside; a way around; nothing there at all.
KINDS = ("operator", "module", "attribute", "arguments", "literal", "wiring", "claimed", "user", "cycle", "missing")

_LONGEST = 60


@dataclass(frozen=True)
class Obstacle:
    """One reason why a place is no match."""

    kind: str  # one of KINDS
    expected: Node  # the node of the pattern
    obtained: Node | None  # the node of the graph that it was held against
    words: str  # a sentence without a full stop


def call_words(node: Node) -> str:
    """Say what a node does: "torch.relu", "the method relu", "the module 'conv' (Conv2d)"."""
    target = node.target
    if node.op == "placeholder":
        return f"the input {node.name}"
    if node.op == "call_method":
        return f"the method {target}"
    if node.op in ("call_module", "get_attr"):
        what = "module" if node.op == "call_module" else "attribute"
        return f"the {what} {target!r}{_kind_words(node)}"
    if node.op == "output":
        return "the return"
    try:
        return readable_target(target)
    except (FxError, AttributeError):
        return repr(target)


def _kind_words(node: Node) -> str:
    try:
        return f" ({type(value_of(node)).__name__})"
    except FxError:
        return ""


def plain_name(node: Node) -> str:
    """Return the name that all spellings of an operator share: "relu" for torch.relu, x.relu() and nn.ReLU."""
    if node.op == "call_method":
        return str(node.target).strip("_").lower()
    if node.op == "call_module":
        return _kind_words(node).strip(" ()").lower()
    return str(getattr(node.target, "__name__", "")).strip("_").lower() if node.op == "call_function" else ""


def another_operation(expected: Node, obtained: Node) -> Obstacle:
    """Say that two nodes do not do the same."""
    both = f"the pattern has {call_words(expected)}, and here is {call_words(obtained)}"
    if expected.op == obtained.op == "call_module":
        return Obstacle("module", expected, obtained, both + _module_hint(expected, obtained))
    if expected.op == obtained.op == "get_attr":
        return Obstacle("attribute", expected, obtained, f"{both}, which holds something else")
    is_spelt_otherwise = plain_name(expected) and plain_name(expected) == plain_name(obtained)
    hint = ", which is another spelling: write the pattern as the graph does" if is_spelt_otherwise else ""
    return Obstacle("operator", expected, obtained, both + hint)


def _module_hint(expected: Node, obtained: Node) -> str:
    words = _kind_words(expected)
    if not words or words != _kind_words(obtained):
        return ""
    differing = differing_settings(value_of(expected), value_of(obtained))
    told = f", whose {_bounded('; '.join(differing))}" if differing else ""
    return f"{told}; match_modules='class' takes any of the class"


def other_arguments(expected: Node, obtained: Node) -> Obstacle:
    """Say that the arguments of two calls of one thing do not pair up."""
    hint = "; bind_arguments=True pairs them by parameter" if pair_by_parameter(expected, obtained) is not None else ""
    words = (
        f"{call_words(expected)} is called with {_arguments_text(expected)} in the pattern, with "
        f"{_arguments_text(obtained)} here{hint}"
    )
    return Obstacle("arguments", expected, obtained, words)


def other_literal(reader: Node, obtained_reader: Node, expected: Any, obtained: Any) -> Obstacle:
    """Say that an argument is another constant, or a constant in one and a value in the other."""
    is_constant = not isinstance(expected, Node) and not isinstance(obtained, Node)
    hint = "; ignore_literals=True takes any constant" if is_constant else ""
    words = f"an argument of {call_words(reader)} is {_text(expected)} in the pattern, and {_text(obtained)} here{hint}"
    return Obstacle("literal" if is_constant else "wiring", reader, obtained_reader, words)


def _arguments_text(node: Node) -> str:
    parts = [_text(argument) for argument in node.args]
    parts += [f"{name}={_text(argument)}" for name, argument in node.kwargs.items()]
    return f"({_bounded(', '.join(parts))})"


def _text(argument: Any) -> str:
    if isinstance(argument, Node):
        return f"%{argument.name}"
    return _bounded(repr(argument) if isinstance(argument, str) else format_argument(argument, 6))


def _bounded(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
