"""The functions of torch that make graphs, replaced while a test runs."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.fx

from pytest_fxgraph.recorder.kept_graphs import KeptGraphs


@contextmanager
def watched(kept: KeptGraphs) -> Iterator[None]:
    """Keep the result of each `torch.fx.symbolic_trace` until the context ends."""
    original = torch.fx.symbolic_trace

    @functools.wraps(original)
    def symbolic_trace(root: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(root, *args, **kwargs)
        kept.keep("symbolic", type(root).__qualname__, made)
        return made

    torch.fx.symbolic_trace = symbolic_trace
    try:
        yield
    finally:
        torch.fx.symbolic_trace = original
