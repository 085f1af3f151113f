from __future__ import annotations

from fixtures.documents import document
from pytest_fxgraph.draw.builder import picture_of
from pytest_fxgraph.draw.mermaid import fits_on_github, mermaid_text

TEXT = "%x = input x : float32[2]\n%a = torch.neg(%x) : float32[2] @ m\n%b = torch.exp(%a) @ m\nreturn %b"


def test_a_graph_is_a_flowchart():
    picture = picture_of(document(TEXT), title="")

    assert mermaid_text(picture, picture.all_opened()).split("\n") == [
        "flowchart TB",
        '  n0(["x"])',
        '  subgraph n5 ["m"]',
        '    n1["neg"]',
        '    n2["exp"]',
        "  end",
        '  n3(["output"])',
        '  n0 -->|"2"| n1',
        '  n1 -->|"2"| n2',
        "  n2 --> n3",
        "",
    ]


def test_differences_have_a_class():
    picture = picture_of(document(TEXT), document(TEXT.replace("torch.exp", "torch.sin")), title="")

    text = mermaid_text(picture, picture.opened(100))

    assert 'n2["exp → sin"]:::changed' in text
    assert "classDef changed " in text


def test_a_label_cannot_end_itself_or_be_markup():
    hostile = document('%x = input x\n%a = torch.foo(%x, "<b>`]\\"; end")\nreturn %a')
    picture = picture_of(hostile, title="")

    (line,) = [line for line in mermaid_text(picture, picture.all_opened()).split("\n") if "foo" in line]

    inner = line.removeprefix('  n1["').removesuffix('"]')
    assert not set(inner) & set('"<>[]`;') - {";"}
    assert "#60;b#62;" in inner


def test_what_github_would_refuse_is_known():
    picture = picture_of(document(TEXT), title="")
    text = mermaid_text(picture, picture.all_opened())

    assert fits_on_github(text)
    assert not fits_on_github(text + "  n0 --> n1\n" * 500)
    assert not fits_on_github(text + " " * 50_000)


def test_github_draws_500_edges_of_each_kind_and_50000_characters():
    edges = [f"n0 {arrow} n1" for arrow in ("-->", "==>", "-.->")]

    for edge in edges:
        assert fits_on_github(f"{edge}\n" * 500)
        assert not fits_on_github(f"{edge}\n" * 501)
    assert fits_on_github("n" * 50_000)
    assert not fits_on_github("n" * 50_001)
