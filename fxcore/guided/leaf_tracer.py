"""Traces a model with the modules that the user chose, or that cannot be traced, as one node each."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Any, Literal

from torch import nn

from fxcore.errors import LeafError
from fxcore.graph import Graph
from fxcore.tracer import Tracer
from fxcore.tracing import placeholders
from fxcore.tracing.refused_calls import place_of
from fxcore.tracing.wrap import wrapped_function

# Classes of modules, paths of modules, or "auto" for modules that cannot be traced.
LeafModules = type | str | Iterable[type | str] | Literal["auto"]

_MOST_PATHS = 8


class LeafTracer(Tracer):
    """Records modules of some classes, and at some paths, as one call; with "auto", modules that cannot be traced.

    A module that cannot be traced becomes one node with the reason in `meta["leaf_reason"]`. The innermost module
    becomes the node that raises an error in its forward and has inputs that can be arguments of a node.
    """

    def __init__(self, leaf_modules: LeafModules = (), **options: Any) -> None:
        """Take classes, paths or "auto", and the options of Tracer."""
        super().__init__(**options)
        leaves = (leaf_modules,) if isinstance(leaf_modules, (str, type)) else tuple(leaf_modules)
        self.is_automatic = "auto" in leaves
        self._leaf_classes = tuple(leaf for leaf in leaves if isinstance(leaf, type))
        self._leaf_paths = [leaf for leaf in leaves if isinstance(leaf, str) and leaf != "auto"]
        self._named_leaves: list[nn.Module] = []
        unknown = [leaf for leaf in leaves if not isinstance(leaf, (type, str))]
        if unknown:
            raise LeafError(f"leaf_modules: expected classes and paths of modules, or 'auto', got {unknown[0]!r}")

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Return whether a module becomes one node."""
        if isinstance(m, self._leaf_classes) or any(m is leaf for leaf in self._named_leaves):
            return True
        return super().is_leaf_module(m, module_qualified_name)

    def trace(self, root: nn.Module | Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
        """Record `root` as Tracer does. With "auto", record it as a whole if its own forward cannot be traced."""
        self._named_leaves = _modules_at(root, self._leaf_paths)
        try:
            return super().trace(root, *args, **kwargs)
        except Exception as error:
            if not self.is_automatic:
                raise
            self.note_leaf("", error)
            tracer = _WholeTracer(root)
            graph = tracer.trace(tracer.holder, *args, **kwargs)
            self.root, graph._tracer_cls = tracer.root, type(self)
            for node in graph.nodes:
                if node.op.startswith("call_") and node.target in ("model", root):
                    node.meta["leaf_reason"] = _reason(error)
            return graph

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Record a call of a module, as one node if its operations cannot be recorded."""
        if not self.is_automatic:
            return super().call_module(m, forward, args, kwargs)
        progress = self._progress()
        try:
            return super().call_module(m, forward, args, kwargs)
        except Exception as error:
            self._return_to(progress)
            try:
                proxy = self.create_proxy("call_module", self.path_of_module(m), args, kwargs)
            except Exception:
                raise error from None
            node = next(reversed(self.graph.nodes))
            node.meta["leaf_reason"] = _reason(error)
            self.note_leaf(str(node.target), error)
            return proxy

    def note_leaf(self, module_path: str, error: Exception) -> None:
        """Handle a module that is recorded as one call because tracing it raised an error. By default, do nothing."""


class _WholeTracer(Tracer):
    """Records a model, or a function, as a single call."""

    def __init__(self, root: nn.Module | Callable[..., Any]) -> None:
        super().__init__()
        self._model = root
        self.holder = nn.Module()
        self.holder.training = getattr(root, "training", True)
        if isinstance(root, nn.Module):
            self.holder.model = root
        # On the instance, where it is called without self.
        vars(self.holder)["forward"] = placeholders.function_calling(root)
        if not isinstance(root, nn.Module):
            self.holder.forward.__globals__["__target"] = wrapped_function(root)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Return whether a module becomes one node: the model does."""
        return m is self._model or super().is_leaf_module(m, module_qualified_name)


def _reason(error: Exception) -> str:
    """Return the reason for a leaf in one line, without names of files, with the line that stopped the trace."""
    lines = str(error).splitlines() or [""]
    said = lines[1] if len(lines) > 1 and lines[0].startswith("symbolically traced variables") else lines[0]
    said = re.sub(r" at [^ ]*:\d+(: .*)?$", "", said) or type(error).__name__
    _, _, source = place_of(error)
    return f"cannot be traced: {said}" + (f": {source}" if source else "")


def _modules_at(root: Any, paths: list[str]) -> list[nn.Module]:
    """Return the modules at paths. Raise LeafError, with the nearest paths, for a path without a module."""
    known = dict(root.named_modules(remove_duplicate=False)) if paths and isinstance(root, nn.Module) else {}
    known.pop("", None)
    for path in paths:
        if path not in known:
            near = difflib.get_close_matches(path, known, n=3, cutoff=0.5) or [*known][:_MOST_PATHS]
            raise LeafError(
                f"leaf_modules: {placeholders.name_of(root)} has no module at {path!r}; "
                + (f"it has {', '.join(map(repr, near))}" if near else "it has no modules inside it")
            )
    return [known[path] for path in paths]
