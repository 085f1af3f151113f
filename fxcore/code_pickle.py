"""Graph modules from what torch.fx pickles: the module's attributes and the code of its forward, without the graph.

fxcore pickles graphs themselves; these functions are here for callers that know them by torch.fx's names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from torch import nn

from fxcore.source_cache import SOURCES


class CodeOnlyModule(nn.Module):
    """A module that has the attributes of another and nothing else."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        vars(self).update(body)


class CodePickle:
    """How a graph comes from code."""

    # Traces `forward` with the given attributes of its module; filled in by the file that traces, which stands above.
    retrace: ClassVar[Callable[[Callable[..., Any], dict[str, Any]], nn.Module]]


def reduce_graph_module(body: dict[str, Any], import_block: str) -> nn.Module:
    """Return the graph module with the attributes in `body`, of which `_code` is the source of its forward.

    `import_block` are the import statements that the source needs.
    """
    names: dict[str, Any] = {}
    SOURCES.run(import_block + (body.get("_code") or body["code"]), names)
    return CodePickle.retrace(names["forward"], body)


def reduce_package_graph_module(importer: Any, body: dict[str, Any], generated_module_name: str) -> nn.Module:
    """Return the graph module with the attributes in `body` and the forward of a module in a package."""
    return CodePickle.retrace(importer.import_module(generated_module_name).forward, body)
