"""Can a set of nodes become one, without needing its own result as an input?"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fxcore.node import Node


def is_convex(nodes: Collection[Node], leaving: Iterable[Node] | None = None) -> bool:
    """Tell whether no value leaves the set, goes through a node outside, and comes back in.

    Looks only at nodes between the first and the last of the set, since a graph's order keeps dependencies. `leaving`
    are the nodes that are read outside, where that is known.
    """
    if len(nodes) < 2:
        return True
    inside = set(nodes)
    last = max([node._sort_key for node in nodes])
    pending = []
    for node in nodes if leaving is None else leaving:
        for user in node.users:
            if user._sort_key < last and user not in inside:
                pending.append(user)
    if not pending:
        return True
    seen = set(pending)
    while pending:
        for user in pending.pop().users:
            if user in inside:
                return False
            if user._sort_key < last and user not in seen:
                seen.add(user)
                pending.append(user)
    return True
