"""What a graph was specialised to while it was traced, as notes: guards, and modules that could not be traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_fxgraph.document.origins import unread_frame


def specialisation_notes(graph: Any, nodes: Sequence[Any]) -> tuple[str, ...]:
    """Describe guards by condition, module, function and source text, and leaves by the reason; without places."""
    notes = []
    for guard in getattr(graph, "guards", ()):
        where = [f"in module {guard.module_path}"] if guard.module_path else []
        where += [f"function {guard.function.rpartition('.')[2]}"] if guard.function else []
        where += [guard.source] if guard.source else []
        kind = "assumed" if guard.is_assumed else "guard"
        notes.append(f"{kind}: {guard.expression}" + (f" ({', '.join(where)})" if where else ""))
    notes += [f"note: {note}" for note in getattr(getattr(graph, "guards", ()), "notes", ())]
    for node in nodes:
        if unread_frame(node) is not None:  # no tracer wrote anything there
            continue
        reason = node.meta.get("leaf_reason")
        if isinstance(reason, str):
            notes.append(f"leaf: {node.target}: {reason}")
    return tuple(dict.fromkeys(notes))
