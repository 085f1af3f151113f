"""Writes down wrapped and bare models alike."""

from __future__ import annotations

from dataclasses import replace

PREFIX = "module."


def pytest_fxgraph_normalize(document):
    """Drop the prefix of the wrapper from every path."""
    return replace(
        document,
        nodes=tuple(node._replace(target=node.target.removeprefix(PREFIX)) for node in document.nodes),
        modules=tuple(module._replace(path=module.path.removeprefix(PREFIX)) for module in document.modules),
        state=tuple(record._replace(path=record.path.removeprefix(PREFIX)) for record in document.state),
    )
