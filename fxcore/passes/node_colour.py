"""The colour of a node in a drawing."""

from __future__ import annotations

import hashlib

from fxcore.node import Node

_FILL_OF_OP = {
    "placeholder": '"AliceBlue"',
    "call_module": "LemonChiffon1",
    "get_attr": "LightGrey",
    "output": "PowderBlue",
}

# The others get one of these, by the name of what they call.
_FILLS = (
    "CadetBlue1",
    "Coral",
    "DarkOliveGreen1",
    "DarkSeaGreen1",
    "GhostWhite",
    "Khaki1",
    "LavenderBlush1",
    "LightSkyBlue",
    "MistyRose1",
    "MistyRose2",
    "PaleTurquoise2",
    "PeachPuff1",
    "Salmon",
    "Thistle1",
    "Thistle3",
    "Wheat1",
)


def fill_colour(node: Node) -> str:
    """Return Graphviz's name of the colour for what `node` does; functions and methods of one name share theirs."""
    fill = _FILL_OF_OP.get(node.op)
    if fill is not None:
        return fill
    name = node._pretty_print_target(node.target)
    # Any stable hash would do; this one gives torch.fx's colours.
    digest = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
    return _FILLS[int(digest[:8], 16) % len(_FILLS)]
