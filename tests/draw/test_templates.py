from __future__ import annotations

import base64
import hashlib
import json
import re
import sys

import pytest

from pytest_fxgraph.draw import templates
from pytest_fxgraph.draw.page import PageArticle, PageContent, page_text
from pytest_fxgraph.errors import ReportError

HOSTILE = "</script><!--<img src=x onerror=alert(1)>\u2028\u2029\ud800\x1b[0m\u202e&amp;\"'"


def test_no_text_is_markup_and_every_text_can_be_written():
    text = str(templates.panel("words", f"{HOSTILE}\nsecond")).removeprefix("<pre>").removesuffix("</pre>")

    assert not {*"<>\"'\x1b\u202e\u2028\ud800"} & {*text}
    assert text.endswith("\nsecond")
    text.encode("utf-8")


def test_a_title_is_one_line_of_visible_characters():
    page = page_text(PageContent(f"{HOSTILE}\nsecond"), [])

    (title,) = re.findall("<title>(.*?)</title>", page)
    assert "second" in title
    assert not {*"<>\"'\x1b\u202e\u2028\ud800"} & {*title}


def test_data_ends_no_script_and_is_the_same_when_it_is_read():
    page = page_text(PageContent("run"), [], [PageArticle("", "a.yaml", picture={"name": HOSTILE})])

    (text,) = re.findall(r'<script type="application/json" class="data">(.*)</script>', page)
    assert text.isascii()
    assert not {*"<>&"} & {*text}
    assert json.loads(text) == {"name": HOSTILE}


def test_without_jinja_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    templates._environment.cache_clear()

    with pytest.raises(ReportError, match="cannot write a page: the library Jinja2 is not installed; pip install"):
        page_text(PageContent("run"), [])


def test_a_page_allows_its_own_script_by_digest_and_no_other():
    page = page_text(PageContent("a page"), [])

    (policy,) = re.findall('<meta http-equiv="Content-Security-Policy" content="(.*?)">', page)
    (script,) = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert allowed["script-src"] == f"'sha256-{digest}'"
    assert allowed["default-src"] == "'none'"
