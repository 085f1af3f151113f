"""What differs between the modules and the state of two documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.field_diff import FieldChange, TextRecord, changed_fields
from pytest_fxgraph.compare.graph_index import GraphIndex, shared_paths
from pytest_fxgraph.document.model import ModuleRecord, NodeRecord, StateRecord


def module_changes(expected: GraphIndex, obtained: GraphIndex) -> list[Change]:
    """List modules that were added, removed or configured otherwise."""
    ours, theirs = expected.modules, obtained.modules
    if expected.document.modules == obtained.document.modules:
        return []
    calls = _callers(obtained, "call_module") | _callers(expected, "call_module", less=theirs)
    sharing = shared_paths(expected.document.modules), shared_paths(obtained.document.modules)
    changes: list[Change] = []
    for path in dict.fromkeys([*ours, *theirs]):
        about = _about("module", path, calls.get(path))
        before, after = ours.get(path), theirs.get(path)
        if before is None or after is None:
            changes.append(_presence(about, before, after))
            continue
        fields = changed_fields(_module_record(before, sharing[0]), _module_record(after, sharing[1]))
        changes.extend(replace(about, **_texts(found), kind=_module_class(found.field)) for found in fields)
        if (before.graph is None) is not (after.graph is None):
            changes.append(replace(about, kind="operators", field="graph", **_graph_texts(before, after)))
    return changes


def state_changes(expected: GraphIndex, obtained: GraphIndex) -> list[Change]:
    """List parameters, buffers and constants that were added, removed or are no longer the same."""
    if expected.document.state == obtained.document.state:
        return []
    ours = {record.path: record for record in expected.document.state}
    theirs = {record.path: record for record in obtained.document.state}
    reads = _callers(obtained, "get_attr") | _callers(expected, "get_attr", less=theirs)
    sharing = shared_paths(expected.document.state), shared_paths(obtained.document.state)
    changes: list[Change] = []
    for path in dict.fromkeys([*ours, *theirs]):
        about = _about("state", path, reads.get(path))
        before, after = ours.get(path), theirs.get(path)
        if before is None or after is None:
            changes.append(_presence(about, before, after))
            continue
        records = _state_record(before, ours, sharing[0]), _state_record(after, theirs, sharing[1])
        fields = changed_fields(*_known_to_both(*records))
        changes.extend(replace(about, **_texts(found)) for found in fields)
    return changes


def _callers(side: GraphIndex, op: str, less: Iterable[str] = ()) -> dict[str, NodeRecord]:
    callers: dict[str, NodeRecord] = {}
    left_out = set(less)
    for node in side.graph.nodes:
        if node.op == op and node.target not in left_out:
            callers.setdefault(node.target, node)
    return callers


def _about(subject: str, path: str, caller: NodeRecord | None) -> Change:
    change = Change(kind="state", action="changed", subject=subject, where=path)
    if caller is None:
        return change
    return replace(change, node=caller.name, scope=caller.scope, source=caller.source)


def _presence(
    about: Change, before: ModuleRecord | StateRecord | None, after: ModuleRecord | StateRecord | None
) -> Change:
    kind = "operators" if about.subject == "module" else "state"
    action = "added" if before is None else "removed"
    return replace(about, kind=kind, action=action, expected=_summary(before), obtained=_summary(after))


def _summary(record: ModuleRecord | StateRecord | None) -> str:
    if record is None:
        return ""
    return record.kind if isinstance(record, ModuleRecord) else f"{record.kind} {record.value}"


def _texts(found: FieldChange) -> dict[str, str]:
    field = re.sub(r"config\['(\w+)'\]", r"config.\1", found.field)
    return {"field": field, "expected": found.expected, "obtained": found.obtained}


def _graph_texts(before: ModuleRecord, after: ModuleRecord) -> dict[str, str]:
    described = ["no graph" if module.graph is None else "a graph" for module in (before, after)]
    return {"expected": described[0], "obtained": described[1]}


def _module_class(field: str) -> str:
    return {"kind": "operators", "same_as": "state"}.get(field, "arguments")


def _module_record(module: ModuleRecord, sharing: Mapping[str, str]) -> TextRecord:
    return {
        "kind": module.kind,
        "config": dict(module.config),
        "training": None if module.training is None else str(module.training),
        "same_as": sharing.get(module.path),
    }


def _state_record(state: StateRecord, records: Mapping[str, StateRecord], sharing: Mapping[str, str]) -> TextRecord:
    # Of several names of one tensor, the one that was met first has the content.
    first = records.get(state.same_as or "", state)
    return {
        "kind": state.kind,
        "value": state.value,
        "requires_grad": str(state.requires_grad),
        "persistent": str(state.persistent),
        "same_as": sharing.get(state.path),
        "content": first.content,
    }


def _known_to_both(expected: TextRecord, obtained: TextRecord) -> tuple[TextRecord, TextRecord]:
    """Leave out the content of a constant that one side does not know, and whether it is a buffer there.

    torch.fx keeps plain tensors of a model as buffers, of which a document has no content; on the meta device there
    is none.
    """
    records = expected, obtained
    is_known = all(record["content"] is not None for record in records)
    if is_known or any(record["kind"] not in ("buffer", "constant") for record in records):
        return expected, obtained
    return {**expected, "content": None}, {**obtained, "content": None, "kind": expected["kind"]}
