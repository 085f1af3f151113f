from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.graph_index import graph_index_of
from pytest_fxgraph.compare.isomorphism import Alignment, find_isomorphism, values_agree

CHAIN = "%x = input x\n%a = torch.exp(%x)\n%b = torch.sin(%x)\n%c = f(%a, %b)\nreturn %c"
UNREAD = "%x = input x\n%a = torch.exp(%x)\n%b = torch.sin(%a)\nreturn %x"
SHARED = "%x = input x\n%a = torch.exp(%x)\n%b = torch.exp(%x)\n%c = torch.sin(%a)\n%d = torch.cos(%a)\nreturn %x"
WRITES = "%x = input x\n%a = f(%x) ! write %x\n%b = g(%x) ! read %x\nreturn (%a, %b)"
STATE = "%x = input x\n%a = self.m(%x) ! state\n%b = self.n(%x) ! state\nreturn (%a, %b)"
UNREAD_CALLS = "%a = f()\n%b = f()\n%c = g(%a, %a)\n%d = f(%a)\n%e = f(%b)\nreturn ()"
RANDOM = "%x = input x\n%a = f(%x) ! random\n%b = g(%x) ! random\nreturn (%a, %b)"


def pairs_by_name(text: str, other: str) -> dict[str, str] | None:
    found = find_isomorphism(*(graph_index_of(document(each)) for each in (text, other)))
    if found is None:
        return None
    assert found.is_isomorphism
    assert found.expected_of == [found.obtained_of.index(n) for n in range(len(found.expected_of))]
    return {found.expected.nodes[n].name: found.obtained.nodes[m].name for n, m in found.pairs()}


@pytest.mark.parametrize(
    ("text", "other", "pairs"),
    [
        (CHAIN, CHAIN, "xx aa bb cc"),
        (CHAIN, CHAIN.replace("%a", "%k").replace("%x", "%z"), "xz ak bb cc"),
        (CHAIN, "%x = input x\n%p = torch.sin(%x)\n%q = torch.exp(%x)\n%r = f(%q, %p)\nreturn %r", "xx aq bp cr"),
        # nodes that lead to no result
        (UNREAD, UNREAD.replace("%a", "%k"), "xx ak bb"),
        (
            "%x = input x\n%a = torch.exp(%x)\n%b = torch.sin(%x)\nreturn %x",
            "%x = input x\n%p = torch.sin(%x)\n%q = torch.exp(%x)\nreturn %x",
            "xx aq bp",
        ),
        (
            "%x = input x\n%a = torch.exp(%x)\n%b = torch.exp(%x)\n%c = torch.sin(%x)\nreturn %x",
            "%x = input x\n%p = torch.sin(%x)\n%q = torch.exp(%x)\n%r = torch.exp(%x)\nreturn %x",
            "xx aq br cp",
        ),
        (
            "%x = input x\n%a = torch.exp(%x)\n%b = f(%a)\n%c = g(%a)\nreturn %x",
            "%x = input x\n%p = torch.exp(%x)\n%q = g(%p)\n%r = f(%p)\nreturn %x",
            "xx ap br cq",
        ),
        (
            "%x = input x\n%a = torch.exp(%x)\n%b = f(%a)\n%c = g(%a)\n%d = h(%c)\nreturn %b",
            "%x = input x\n%p = torch.exp(%x)\n%q = g(%p)\n%r = f(%p)\n%s = h(%q)\nreturn %r",
            "xx ap br cq ds",
        ),
        # calls that nothing tells apart but their readers
        (
            UNREAD_CALLS,
            "%p = f()\n%q = f(%p)\n%r = f()\n%s = g(%r, %r)\n%t = f(%r)\nreturn ()",
            "ar bp cs dt eq",
        ),
        (
            "%a = f()\n%b = f()\n%c = f(%a)\n%d = f(%b)\nreturn %a",
            "%p = f()\n%q = f(%p)\n%r = f()\n%s = f(%r)\nreturn %r",
            "ar bp cs dq",
        ),
        # effects
        (WRITES, WRITES, "xx aa bb"),
        (
            "%x = input x\n%y = input y\n%a = f(%x) ! write %x\n%b = g(%y) ! write %y\nreturn (%a, %b)",
            "%x = input x\n%y = input y\n%p = g(%y) ! write %y\n%q = f(%x) ! write %x\nreturn (%q, %p)",
            "xx yy aq bp",
        ),
        # an input that nothing reads, before unread calls in another order
        (
            "%x = input x\n%a = f(1)\n%b = g(2)\nreturn 1",
            "%x = input x\n%b = g(2)\n%a = f(1)\nreturn 1",
            "xx aa bb",
        ),
        (
            STATE,
            STATE.replace("%a = self.m", "%k = self.n")
            .replace("%b = self.n", "%a = self.m")
            .replace("(%a, %b)", "(%a, %k)"),
            "xx aa bk",
        ),
    ],
)
def test_equal_graphs_pair_node_by_node(text, other, pairs):
    found = pairs_by_name(text, other)

    assert found is not None
    assert found == {**{pair[0]: pair[1] for pair in pairs.split()}, "output": "output"}


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (CHAIN, CHAIN.replace("sin", "cos")),
        (CHAIN, CHAIN.replace("f(%a, %b)", "f(%b, %a)")),
        (CHAIN, CHAIN.replace("f(%a, %b)", "f(%a, %a)")),
        (CHAIN, CHAIN.replace("f(%a, %b)", "f(%a, 1)")),
        (CHAIN, CHAIN.replace("return", "%d = torch.exp(%x)\nreturn")),
        (CHAIN.replace("input x", "input x : int8[2]"), CHAIN.replace("input x", "input x : int8[3]")),
        (UNREAD, UNREAD.replace("torch.sin(%a)", "torch.sin(%x)")),
        (UNREAD, UNREAD.replace("torch.exp", "torch.log")),
        # one value with two readers is not two values with one reader
        (SHARED, SHARED.replace("torch.cos(%a)", "torch.cos(%b)")),
        # readers of a shared value that read different other values
        (
            "%x = input x\n%y = input y\n%a = f(%x)\n%b = g(%a, %x)\n%c = g(%a, %y)\nreturn 1",
            "%x = input x\n%y = input y\n%a = f(%x)\n%c = g(%a, %y)\n%b = g(%a, %y)\nreturn 1",
        ),
        # one value with two readers, and two values, of which one has no reader
        (
            "%a = f()\n%b = f()\n%c = f(%a, 1)\n%d = f(%b)\nreturn (%c, %d)",
            "%a = f()\n%b = f()\n%c = f(%b, 1)\n%d = f(%b)\nreturn (%c, %d)",
        ),
        (
            "%a = f()\n%b = f()\n%c = f(%a, %a)\n%d = f(%b)\nreturn ()",
            "%a = f()\n%b = f()\n%d = f(%b)\n%c = f(%b, %a)\nreturn ()",
        ),
        (
            "%a = f()\n%b = f()\n%c = f(%b, %a)\n%d = f()\n%e = f(%c)\nreturn ()",
            "%a = f()\n%d = f()\n%b = f()\n%c = f(%b, %b)\n%e = f(%c)\nreturn ()",
        ),
        (
            "%x = input x\n%a = f() ! random\n%b = f() ! random\nreturn %a",
            "%x = input x\n%a = f() ! random\n%b = f() ! random\nreturn %b",
        ),
        (RANDOM, RANDOM.replace("! random\n%b", "\n%b")),
        (
            RANDOM,
            "%x = input x\n%b = g(%x) ! random\n%a = f(%x) ! random\nreturn (%a, %b)",
        ),
        (WRITES, "%x = input x\n%b = g(%x) ! read %x\n%a = f(%x) ! write %x\nreturn (%a, %b)"),
        (WRITES, WRITES.replace("read", "write")),
        (WRITES, WRITES.replace(" ! read %x", "")),
    ],
)
def test_graphs_that_differ_have_no_isomorphism(text, other):
    assert pairs_by_name(text, other) is None
    assert pairs_by_name(other, text) is None


def test_unread_calls_in_another_order_must_have_the_same_values():
    text = "%x = input x\n%a = f(%x) : int8[2]\n%b = g(%x)\nreturn %x"
    other = "%x = input x\n%b = g(%x)\n%a = f(%x) : int8[3]\nreturn %x"

    assert pairs_by_name(text, other) is None
    assert pairs_by_name(text, other.replace(" : int8[3]", "")) is not None


def test_a_value_that_one_side_knows_agrees_with_a_missing_one():
    assert [values_agree(*pair) for pair in (("a", "a"), ("a", None), (None, "a"), ("a", "b"))] == [True] * 3 + [False]


def test_nodes_without_partner_are_removed_or_added_and_a_pair_can_be_undone():
    alignment = Alignment(*(graph_index_of(document(text)) for text in (CHAIN, UNREAD)))
    alignment.pair(0, 0)
    alignment.pair(1, 2)

    assert (alignment.pairs(), alignment.removed(), alignment.added()) == ([(0, 0), (1, 2)], [2, 3, 4], [1, 3])

    alignment.separate(1)

    assert (alignment.pairs(), alignment.removed(), alignment.added()) == ([(0, 0)], [1, 2, 3, 4], [1, 2, 3])
