"""A graph module and the graph modules inside it as one readable class."""

from __future__ import annotations

from typing import Any, Protocol

from fxcore.graph import Graph


class _WithGraph(Protocol):
    @property
    def graph(self) -> Graph: ...
    def named_children(self) -> Any: ...


def readable_module(module: _WithGraph, name: str, **options: Any) -> str:
    """Return the source of a class that does what `module` does; `options` are those of `Graph.python_code`."""
    forward = module.graph.python_code(root_module="self", verbose=True, **options).src.lstrip("\n")
    source = _indented(f"class {name}(torch.nn.Module):\n{forward}")
    options = {key: value for key, value in options.items() if key != "expanded_def"}
    children = [
        readable_module(child, child_name, **options)
        for child_name, child in module.named_children()
        if isinstance(getattr(child, "graph", None), Graph)
    ]
    return source + _indented("\n".join(["", *children]))


def _indented(text: str) -> str:
    """Indent every line but the first by four blanks, and those with nothing but blanks not at all."""
    first, *others = text.split("\n")
    return "\n".join([first, *[f"    {line}" if line.strip() else "" for line in others]])
