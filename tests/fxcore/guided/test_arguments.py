"""Arguments of calls hold proxies in any container, and each container stands for its values."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch

from fxcore import Graph, Proxy
from fxcore.guided.arguments import holds_proxies, value_of
from fxcore.guided.proxies import proxy_of
from fxcore.proxy import GraphAppendingTracer


class Named(list):
    """A list of a class of the user's."""


class Pair(NamedTuple):
    x: Any
    scale: float


@dataclass(frozen=True)
class Batch:
    x: Any
    scale: float


class Couple(tuple):
    """A tuple of a class of the user's."""


CONTAINERS = {
    "tuple of a class": lambda x: Couple([x, 2.0]),
    "named tuple": lambda x: Pair(x, 2.0),
    "dataclass": lambda x: Batch(x, 2.0),
    "ordered dict": lambda x: OrderedDict(x=x, scale=2.0),
    "list of a class": lambda x: Named([x, 2.0]),
    "dict": lambda x: {"x": x, "scale": [2.0, slice(1, None)]},
}


@pytest.mark.parametrize("in_other_size", [False, True])
@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS.keys())
def test_a_container_keeps_its_type_and_gets_the_values_of_the_example(container, in_other_size):
    example, other, node = torch.ones(2), torch.zeros(3), Graph().placeholder("x")
    proxy = proxy_of(GraphAppendingTracer(node.graph), node, example, False, True, other)
    given = container(proxy)

    found = value_of(given, in_other_size)

    expected = container(other if in_other_size else example)
    assert type(found) is type(expected)
    assert repr(found) == repr(expected)
    assert holds_proxies(given) is not holds_proxies(found)  # the argument is left as it was


@pytest.mark.parametrize("holder", [lambda x: {"a": [x]}, lambda x: SimpleNamespace(a=(1, x)), lambda x: Batch(x, 1)])
def test_a_proxy_is_found_in_items_and_attributes(holder):
    assert holds_proxies(holder(Proxy(Graph().placeholder("x"))))
    assert not holds_proxies(holder(1))


def test_a_search_for_proxies_ends_in_a_circle_and_leaves_out_modules():
    module, circle = torch.nn.Module(), [1]
    module.kept = Proxy(Graph().placeholder("x"))
    circle.append(circle)

    assert not holds_proxies([circle, module, {"kind": Batch}])
    assert holds_proxies([circle, module.kept])
    assert holds_proxies([module.kept, torch.ones(1), module, Batch])
