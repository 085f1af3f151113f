"""Can a set of nodes become one, without needing its own result as an input?"""

from __future__ import annotations

from collections.abc import Collection

from fxcore.node import Node


def is_convex(nodes: Collection[Node]) -> bool:
    """Tell whether no value leaves the set, goes through a node outside, and comes back in.

    Looks only at nodes between the first and the last of the set, since a graph's order keeps dependencies.
    """
    if len(nodes) < 2:
        return True
    inside = set(nodes)
    last = max([node._sort_key for node in nodes])
    pending = [user for node in nodes for user in node.users if user not in inside and user._sort_key < last]
    seen = set(pending)
    while pending:
        for user in pending.pop().users:
            if user in inside:
                return False
            if user._sort_key < last and user not in seen:
                seen.add(user)
                pending.append(user)
    return True
