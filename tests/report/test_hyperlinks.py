"""Places in files are links where a terminal has them."""

from __future__ import annotations

import pytest

from pytest_fxgraph.report.hyperlinks import Hyperlinks, url_format, wants_hyperlinks


@pytest.mark.parametrize(
    ("choice", "environ", "wanted"),
    [
        ("auto", {}, False),
        ("auto", {"TERM": "xterm-256color"}, False),
        ("auto", {"TERM": "xterm-kitty"}, True),
        ("auto", {"TERM_PROGRAM": "WezTerm"}, True),
        ("auto", {"TERM_PROGRAM": "tmux", "TERM": "tmux-256color"}, False),
        ("auto", {"WT_SESSION": "1"}, True),
        ("auto", {"VTE_VERSION": "7200"}, True),
        ("auto", {"VTE_VERSION": "4000"}, False),
        ("auto", {"VTE_VERSION": "7200", "CI": "true"}, False),
        ("auto", {"FORCE_HYPERLINK": "1"}, True),
        ("auto", {"FORCE_HYPERLINK": "0", "TERM": "foot"}, False),
        ("always", {}, True),
        ("vscode://file{path}", {}, True),
        ("never", {"FORCE_HYPERLINK": "1"}, False),
        ("always", {"NO_COLOR": "1"}, False),
        ("always", {"TERM": "dumb"}, False),
    ],
    ids=str,
)
def test_a_terminal_gets_links_if_it_is_known_to_have_them_or_the_user_says_so(choice, environ, wanted):
    assert wants_hyperlinks(choice, environ) is wanted


@pytest.mark.parametrize(
    ("choice", "environ", "form"),
    [
        ("auto", {}, "file://{host}{path}"),
        ("auto", {"TERM_PROGRAM": "vscode"}, "vscode://file{path}:{line}"),
        ("always", {"KITTY_WINDOW_ID": "1"}, "file://{host}{path}#{line}"),
        ("edit://{path}", {"TERM_PROGRAM": "vscode"}, "edit://{path}"),
    ],
    ids=str,
)
def test_a_link_has_the_form_that_the_terminal_opens_at_the_line(choice, environ, form):
    assert url_format(choice, environ) == form


@pytest.fixture
def links(tmp_path):
    (tmp_path / "a folder").mkdir()
    for name in ("model.py", "a folder/net.py"):
        (tmp_path / name).touch()
    return Hyperlinks(tmp_path, "edit://{path}:{line}")


def test_a_place_in_a_file_that_is_there_is_a_link(links, tmp_path):
    url = f"edit://{tmp_path.as_posix()}/model.py:12"

    assert links.linked("in blocks.0; model.py:12: return x") == (
        f"in blocks.0; \x1b]8;;{url}\x1b\\model.py:12\x1b]8;;\x1b\\: return x"
    )


@pytest.mark.parametrize("text", ["gone.py:3: x", "model.py", "model.py:12", "relu: a.b -> c.d", "http://x.y:80: z"])
def test_other_texts_stay_as_they_are(links, text):
    assert links.linked(text) == text


def test_what_is_no_part_of_a_url_is_escaped(tmp_path):
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b/net.py").touch()

    assert "/a%20b/net.py:3\x1b" in Hyperlinks(tmp_path / "a b", "edit://{path}:{line}").linked("net.py:3: x")
