"""What dotted paths name below the module of a graph, looked up once each."""

from __future__ import annotations

from typing import Any

import torch


class Attributes:
    """Attributes of a module by path."""

    def __init__(self, root: torch.nn.Module) -> None:
        self._known: dict[str, Any] = {"": root}

    def at(self, path: str) -> Any:
        """Give what a path names; a missing part is an AttributeError."""
        known = self._known
        if path not in known:
            parent, _, name = path.rpartition(".")
            owner = self.at(parent)
            # Modules first: torch.nn.Module looks for its parameters and buffers before them, in Python.
            found = owner._modules.get(name) if isinstance(owner, torch.nn.Module) else None
            known[path] = getattr(owner, name) if found is None else found
        return known[path]
