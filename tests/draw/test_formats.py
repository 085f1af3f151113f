from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.draw.formats import ENDINGS, drawn_text, ending_of
from pytest_fxgraph.draw.mermaid import fits_on_github
from pytest_fxgraph.errors import ReportError

SMALL = document("%x = input x\n%a = torch.neg(%x)\nreturn %a")


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_same_graph_is_drawn_the_same_in_every_format(ending):
    assert drawn_text(SMALL, f"a{ending}", title="t") == drawn_text(SMALL, f"b{ending}", title="t")


@pytest.mark.parametrize("path", ["a.png", "svg", ".svg", "a.svg.gz", ""])
def test_another_ending_is_refused_with_those_there_are(path):
    with pytest.raises(ReportError, match=r"a picture's name ends in \.svg, \.html, \.mmd, \.dot; choose one of these"):
        ending_of(path)


def test_a_flowchart_is_folded_until_github_draws_it():
    lines = [
        f"%n{layer}_{number} = torch.neg(%{f'n{layer}_{number - 1}' if number else 'x'}) @ layers.{layer}.part{layer}"
        for layer in range(30)
        for number in range(30)
    ]
    large = document("\n".join(["%x = input x", *lines, "return %n29_29"]))

    assert fits_on_github(drawn_text(large, "a.mmd", title=""))
    assert not fits_on_github(drawn_text(large, "a.mmd", title="", is_full=True))


def test_a_flowchart_that_cannot_be_folded_enough_says_so():
    lines = [f"%n{number} = torch.cat(({', '.join(f'%n{read}' for read in range(number))}))" for number in range(1, 60)]
    dense = document("\n".join(["%n0 = input x", *lines, "return %n59"]))

    assert drawn_text(dense, "a.mmd", title="").startswith(
        "%% GitHub does not draw this: it is beyond 50000 characters"
    )


def test_such_a_flowchart_is_folded_as_far_as_it_goes():
    lines = [f"%n{number} = torch.cat(({', '.join(f'%n{read}' for read in range(number))}))" for number in range(1, 60)]
    lines += ["%a = torch.neg(%n59) @ part", "%b = torch.exp(%a) @ part"]
    dense = document("\n".join(["%n0 = input x", *lines, "return %b"]))

    assert '[["part<br>2 nodes"]]' in drawn_text(dense, "a.mmd", title="")
    assert '["part"]' in drawn_text(dense, "a.mmd", title="", is_full=True)
