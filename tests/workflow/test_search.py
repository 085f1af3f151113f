"""A search can be asked for by argument, ini key and command line; the section tells what it did."""

from __future__ import annotations

import pytest

TEST = """
import torch
import fxcore

GRAPH = fxcore.symbolic_trace(lambda x: x * 1)

def test_relu(fx_equivalence):
    fx_equivalence(torch.relu, torch.rand(2, 3), graph=GRAPHOPTION)

def test_right(fx_equivalence):
    fx_equivalence(lambda x: x * 1, torch.rand(2, 3), graph=GRAPH)
    assert False
"""


@pytest.mark.sampled(every=2, start=1)
@pytest.mark.parametrize(
    ("option", "ini"),
    [("", "fx_search = 20"), (", search=20", "fx_search = 3")],
)
def test_a_search_is_asked_for_where_other_settings_are(pytester, option, ini):
    pytester.makepyfile(TEST.replace("OPTION", option))
    pytester.makeini(f"[pytest]\n{ini}")

    result = pytester.runpytest("-p", "no:cacheprovider")

    output = result.stdout.str()
    assert "found by search, try 3 of 20, seed 0; smallest input: 0 = float32[1, 1] [[-1]]" in output
    result.stdout.fnmatch_lines(["*fx search*", "graph (mode eval): * tries in *, and no difference*"])
