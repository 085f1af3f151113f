"""Does a graph module still run what its graph says?"""

from __future__ import annotations

from typing import Any

import fxcore


def code_is_stale(graph_module: Any) -> bool:
    """Tell whether the graph was changed after the last recompile(), so that forward runs something else."""
    if not isinstance(graph_module, fxcore.GraphModule):
        return False
    return bool(graph_module.graph.python_code("self").src.strip() != graph_module.code.strip())
