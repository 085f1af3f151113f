"""Groups of processes as texts: by their size and which processes they hold, the same on every rank.

A name of a group is a number that a process counts, or a digest of its ranks, and differs between ranks where the
group is the one "along the rows" on each.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Any

from fxcore.node_data.distributed_types import is_process_group
from fxcore.operators.kinds import is_packet, overloads_of, schema_of
from fxcore.operators.table import GROUP_ARGUMENTS


class ProcessGroupTexts:
    """Writes the groups of one document; different ones that would have the same text are numbered."""

    def __init__(self) -> None:
        self._seen: dict[str, list[str]] = {}

    def text(self, group: Any) -> str:
        """Write a group."""
        return self.numbered(str(group.group_name), _ranks_of(group))

    def numbered(self, name: str, ranks: Sequence[int], dimension: str = "") -> str:
        """Write the group of a name: its dimension of a mesh and its ranks, and a number from the second group on."""
        text = f"{dimension}, " * bool(dimension) + _text_of_ranks(ranks)
        names = self._seen.setdefault(text, [])
        if name not in names:
            names.append(name)
        number = names.index(name)
        return f"process_group({text})" + (f"#{number + 1}" if number else "")

    def text_of_argument(self, value: Any) -> str | None:
        """Write what an operator takes for a group, its name or itself; None if this process has no such group."""
        group = value if is_process_group(value) else _group_of_name(value) if isinstance(value, str) else None
        return None if group is None else self.text(group)


def with_named_group(node: Any, texts: ProcessGroupTexts) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call; of an operator that takes a group, with the group's text in its place."""
    place = _group_argument(node.target) if node.op == "call_function" else None
    if place is None:
        return node.args, node.kwargs
    position, name = place
    args, kwargs = list(node.args), dict(node.kwargs)
    if len(args) > position:
        args[position] = texts.text_of_argument(args[position]) or args[position]
    elif name in kwargs:
        kwargs[name] = texts.text_of_argument(kwargs[name]) or kwargs[name]
    return tuple(args), kwargs


def _group_argument(target: Any) -> tuple[int, str] | None:
    """Return position and name of the argument of an operator that is a group of processes; None if it has none."""
    for overload in overloads_of(target) if is_packet(target) else [target]:
        schema = schema_of(overload)
        for position, argument in enumerate(() if schema is None else schema.arguments):
            if argument.name in GROUP_ARGUMENTS:
                return position, argument.name
    return None


def _group_of_name(name: str) -> Any:
    distributed: Any = sys.modules["torch.distributed.distributed_c10d"]
    try:
        return distributed._resolve_process_group(name)
    except Exception:  # torch raises a ValueError or a RuntimeError of C++, by its version
        return None


def _ranks_of(group: Any) -> list[int]:
    distributed: Any = sys.modules["torch.distributed.distributed_c10d"]
    return list(distributed.get_process_group_ranks(group))


def _text_of_ranks(ranks: Sequence[int]) -> str:
    """Write ranks relative to the first: `size=4` in a row, `size=4, step=2`, or `offsets=[0, 1, 3]`."""
    steps = {later - earlier for earlier, later in itertools.pairwise(ranks)}
    if len(steps) > 1:
        return f"offsets=[{', '.join([str(rank - ranks[0]) for rank in ranks])}]"
    step = next(iter(steps), 1)
    return f"size={len(ranks)}" + (f", step={step}" if step != 1 else "")
