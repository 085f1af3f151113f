"""A call that runs a graph through an interpreter of the user's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import fxcore
from pytest_fxgraph.equivalence.recording import positional
from pytest_fxgraph.errors import SubjectError


@dataclass(frozen=True)
class InterpreterCall:
    """Runs a graph through an interpreter of the user's, a fresh one for each call, as it may keep state."""

    kind: Any
    graph_module: fxcore.GraphModule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = positional(self.graph_module.graph, args, kwargs)
        if values is None:
            raise SubjectError(
                f"cannot run {self.kind.__name__}: the graph's inputs do not name the keyword arguments "
                f"{sorted(kwargs)}"
            )
        return self.kind(self.graph_module).run(*values)
