"""Pictures of a profile and of a roofline, as files that a browser reads."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
import torch
from torch import nn

import fxcore
from fxcore.transforms.analysis.costs import graph_costs
from fxcore.transforms.analysis.pictures import WIDTH, profile_picture, roofline_picture
from fxcore.transforms.analysis.profile import GraphProfile, NodeTime, profile
from fxcore.transforms.analysis.roofline import Peaks, roofline

NET = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


@pytest.fixture(scope="module")
def traced():
    return fxcore.symbolic_trace(NET)


@pytest.fixture(scope="module")
def times(traced):
    return profile(traced, torch.ones(2, 8), warmup=0, repeats=2)


def test_pictures_are_svg_with_a_mark_for_each_node(traced, times):
    roof = roofline(graph_costs(traced, torch.ones(2, 8)), times, Peaks(1e11, 1e10))

    dots = ElementTree.fromstring(roofline_picture(roof, "A & B"))
    bars = ElementTree.fromstring(profile_picture(times, "Net"))

    svg = "{http://www.w3.org/2000/svg}"
    assert len(dots.findall(f"{svg}circle")) == 3
    assert dots.find(f"{svg}text").text == "A & B"
    assert len(bars.findall(f"{svg}rect")) == 1 + 3
    assert "_0" in {text.text for text in bars.findall(f"{svg}text")}


def test_names_that_are_too_long_are_cut_and_stay_in_the_picture():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    node = graph.create_node("call_function", torch.relu, (x,), name="a_module_with_a_very_long_name_in_it_and_more")
    graph.output(node)
    costs = graph_costs(fxcore.GraphModule(nn.Module(), graph), torch.ones(4))
    times = GraphProfile((NodeTime(node, "", (1e-6,)),), (1e-6,))

    picture = roofline_picture(roofline(costs, times, Peaks(1e11, 1e10)))

    label = next(line for line in ElementTree.fromstring(picture).iter() if "..." in (line.text or ""))
    assert label.text == "a_module_with_a_v...e_in_it_and_more"
    assert 0 < float(label.get("x")) < WIDTH
