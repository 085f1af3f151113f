from __future__ import annotations

from pytest_fxgraph.captures.stages import Stage, StageNode
from pytest_fxgraph.captures.strip import strip_of


def test_nodes_name_what_they_were_made_from_by_its_place():
    fc, unused = (StageNode(name, "linear", (), "fc", "model.py:3") for name in ("fc", "unused"))
    transposed, product = (StageNode(name, f"aten.{name}", (fc,), "fc", None) for name in ("t", "mm"))
    clone = StageNode("clone", "aten.clone", (), None, None)
    stages = [
        Stage("export", None, (unused, fc), ()),
        Stage("decompose", None, (transposed, product, clone), (unused,)),
    ]

    strip = strip_of(stages, "in words", "test_net.py::test_net")

    first, second = strip.stages
    assert [(node.name, node.change, node.made_from) for node in first.nodes] == [
        ("unused", "traced", ()),
        ("fc", "traced", ()),
    ]
    assert [(node.name, node.change, node.made_from) for node in second.nodes] == [
        ("t", "rewritten", (1,)),
        ("mm", "rewritten", (1,)),
        ("clone", "added", ()),
    ]
    assert second.removed == (0,)
    assert (strip.text, strip.nodeid) == ("in words", "test_net.py::test_net")
