"""Texts of assertions: the graph writes them anew in each run, with the values of the run."""

from __future__ import annotations

from typing import Any

from fxcore.guided.proxies import ExampleProxy
from fxcore.node import Node

_MARK = "\u2063"  # invisible; it stands before and behind the text of a value


class Messages:
    """The values that were written into texts of assertions while a trace runs."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._parts: list[tuple[str, ExampleProxy, str]] = []  # marked text, value and field of a format

    def part(self, proxy: ExampleProxy, field: str) -> str:
        """Return the marked text of a value. `field` is its place in a format: `{}`, `{!r}`, `{:>3}`."""
        text = field.format(proxy.example)
        self._parts.append((text, proxy, field))
        return f"{_MARK}{text}{_MARK}"

    def argument(self, text: str) -> str | Node:
        """Return the argument of a node for a text: a node that writes it, if a value was written into it."""
        pieces = text.split(_MARK)
        written, self._parts = self._parts[-(len(pieces) // 2) :], []
        if len(pieces) < 3 or [each for each, _, _ in written] != pieces[1::2]:
            return "".join(pieces)
        fields = ["{}" if field == "{:}" else field for _, _, field in written]
        constants = [each.replace("{", "{{").replace("}", "}}") for each in pieces[::2]]
        template = "".join([part for pair in zip(constants, fields, strict=False) for part in pair]) + constants[-1]
        arguments = (template, *[proxy.node for _, proxy, _ in written])
        return self._tracer.create_node("call_method", "format", arguments, {})  # type: ignore[no-any-return]


def has_marks(text: str) -> bool:
    """Return whether a value was written into a text of an assertion."""
    return _MARK in text
