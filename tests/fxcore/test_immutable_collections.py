from __future__ import annotations

import copy
import pickle

import pytest
from torch.utils import _pytree as pytree

from fixtures.oracle import assert_same
from fxcore.errors import FxError
from fxcore.immutable_collections import immutable_dict, immutable_list

LIST_EDITS = {
    "assign": lambda items: items.__setitem__(0, 1),
    "delete": lambda items: items.__delitem__(0),
    "append": lambda items: items.append(1),
    "extend": lambda items: items.extend([1]),
    "add in place": lambda items: items.__iadd__([1]),
    "repeat in place": lambda items: items.__imul__(2),
    "sort": lambda items: items.sort(),
    "pop": lambda items: items.pop(),
}
DICT_EDITS = {
    "assign": lambda table: table.__setitem__("a", 1),
    "delete": lambda table: table.__delitem__("a"),
    "update": lambda table: table.update(a=1),
    "merge in place": lambda table: table.__ior__({}),
    "set default": lambda table: table.setdefault("b"),
    "pop": lambda table: table.pop("a"),
}


@pytest.mark.parametrize("edit", LIST_EDITS.values(), ids=LIST_EDITS)
def test_a_list_refuses_edits_in_place(edit):
    items = immutable_list([3, 2])

    with pytest.raises(TypeError, match=r"does not support mutation.*node\.args = new_args") as caught:
        edit(items)

    assert isinstance(caught.value, FxError)
    assert items == [3, 2]


@pytest.mark.parametrize("edit", DICT_EDITS.values(), ids=DICT_EDITS)
def test_a_dict_refuses_edits_in_place(edit):
    table = immutable_dict(a=2)

    with pytest.raises(TypeError, match="'immutable_dict' object does not support mutation"):
        edit(table)

    assert table == {"a": 2}


def test_both_read_copy_and_pickle_as_those_of_torch_fx():
    def sights(fx):
        items = fx.immutable_collections.immutable_list([1, (2, 3)])
        table = fx.immutable_collections.immutable_dict(a=1, b=items)
        made = [items.__add__([1]), items[0:1], items * 2, table | {"c": 1}, items.copy(), table.copy()]
        again = [copy.deepcopy(items), copy.copy(table), pickle.loads(pickle.dumps(table))]
        return [(type(each).__name__, each) for each in made + again]

    assert_same(sights)


def test_equal_ones_hash_alike():
    assert hash(immutable_list([1, (2,)])) == hash(immutable_list([1, (2,)]))
    assert hash(immutable_dict(a=1, b=2)) == hash(immutable_dict(b=2, a=1))
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        hash(immutable_list([[1]]))


def test_torch_s_pytree_looks_inside():
    nested = immutable_list([1, immutable_dict(a=2)])

    mapped = pytree.tree_map(lambda leaf: leaf + 1, nested)

    assert mapped == [2, {"a": 3}]
    assert [type(mapped), type(mapped[1])] == [immutable_list, immutable_dict]
