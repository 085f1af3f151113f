"""A module that a graph calls, and what is inside it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch

from .graph_document import GraphDocument
from .module_traits import ModuleTraits


class CalledModule(NamedTuple):
    """A module that runs as part of a graph, and its document, if it is itself a graph."""

    path: str
    module: torch.nn.Module
    traits: ModuleTraits
    graph: GraphDocument | None


def parts_of(path: str, module: torch.nn.Module) -> Iterable[tuple[str, torch.nn.Module]]:
    """List a module and the modules inside it, each under every path that it has."""
    if not module._modules:  # most of those that a graph calls
        return ((path, module),)
    parts: Iterable[tuple[str, torch.nn.Module]] = module.named_modules(prefix=path, remove_duplicate=False)
    return parts
