"""Where a node comes from: the module whose forward made it, and the line of the model's source."""

from __future__ import annotations

import linecache
import os
import re
import sys
from typing import Any

from fxcore.node_data.module_stack import ModuleCall

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)[^\n]*(?:\n[ \t]+([^\n]*))?')
_EXPORT_ROOT = re.compile(r"L\[['\"]\w+['\"]\]\.?|L__\w+?___?")
_ENTRY = re.compile(r"\.?_modules\['([^']+)'\]")  # Dynamo of torch 2.6 writes modules of a list so
# Packages that stand between the user's line and the operator.
_NOT_THE_USERS = ("torch", "fxcore", "pytest_fxgraph")


def unread_frame(node: Any) -> ModuleCall | None:
    """Return the call of a module that a node was made in, if its meta is that alone and nobody has read it yet.

    Reading it would write the whole stack of calls out.
    """
    frame = getattr(node, "_meta", None)
    return frame if type(frame) is ModuleCall else None


class Origins:
    """Reads scopes and source lines of nodes; paths are told relative to the current folder."""

    def __init__(self, sources: bool) -> None:
        self._sources = sources
        self._folder = os.path.join(os.getcwd(), "") if sources else ""
        self._foreign = _package_folders() if sources else ()
        self._lines: dict[str, str | None] = {}
        self._paths: dict[str, str] = {}

    def scope(self, node: Any) -> str | None:
        """Give the path of the module whose forward made a node; None for the outermost."""
        stack = node.meta.get("nn_module_stack")
        if not stack:
            return None
        keys = reversed(stack)
        path = self._path(stack, next(keys))
        # A called module stands on its own stack; its caller is the one before.
        if path == node.target and node.op == "call_module":
            outer = next(keys, None)
            path = "" if outer is None else self._path(stack, outer)
        return path or None

    def scope_of_frame(self, frame: ModuleCall, op: str, target: Any) -> str | None:
        """Give the scope of a node that was made in a call of a module; a called module is in the call around its own.

        Raises nothing, and reads no metadata.
        """
        if op == "call_module" and frame.place[0] == target:
            if frame.outer is None:
                return None
            frame = frame.outer
        return self._plain(frame.place[0]) or None

    def _path(self, stack: Any, key: Any) -> str:
        entry = stack[key]
        return self._plain(entry[0] if isinstance(entry, tuple) and entry and isinstance(entry[0], str) else str(key))

    def _plain(self, path: str) -> str:
        plain = self._paths.get(path)
        if plain is None:
            plain = _EXPORT_ROOT.sub("", path) if "L" in path else path
            plain = self._paths[path] = _ENTRY.sub(r".\1", plain).lstrip(".") if "_modules[" in plain else plain
        return plain

    def source(self, node: Any) -> str | None:
        """Give the innermost line of the user's source, `model.py:12: x = x + 1`, where tracing kept it."""
        if not self._sources:
            return None
        place = node.meta.get("source")
        if isinstance(place, tuple):
            # An input is made by nobody's line; what stands there is ours.
            return None if self._is_foreign(place[0]) else self._told(*place)
        trace = node.meta.get("stack_trace") or getattr(node, "stack_trace", None)
        if not isinstance(trace, str):
            return None
        if trace not in self._lines:
            self._lines[trace] = self._line(trace)
        return self._lines[trace]

    def _line(self, trace: str) -> str | None:
        frames = [frame for frame in _FRAME.findall(trace) if not self._is_foreign(frame[0])]
        return self._told(*frames[-1]) if frames else None

    def _told(self, path: str, line: int | str, text: str | None = None) -> str:
        text = linecache.getline(path, int(line)) if text is None else text
        return f"{path.removeprefix(self._folder)}:{line}: {text.strip()}".removesuffix(": ")

    def _is_foreign(self, path: str) -> bool:
        return path.startswith(self._foreign)


def _package_folders() -> tuple[str, ...]:
    files = [getattr(sys.modules.get(name), "__file__", None) for name in _NOT_THE_USERS]
    # Generated code has no file: its path begins with a bracket.
    return ("<", *(os.path.join(os.path.dirname(file), "") for file in files if file))
