from __future__ import annotations

import json

from pytest_fxgraph.draw.markup import preformatted, quoted, script_data

HOSTILE = "</script><!--<img src=x onerror=alert(1)>\u2028\u2029\ud800\x1b[0m\u202e&amp;\"'"


def test_no_text_is_markup_and_every_text_can_be_written():
    for text in (quoted(HOSTILE), preformatted(HOSTILE).removeprefix("<pre>").removesuffix("</pre>")):
        assert not {*"<>\"'\x1b\u202e\u2028\ud800"} & {*text}
        text.encode("utf-8")


def test_data_ends_no_script_and_is_the_same_when_it_is_read():
    element = script_data({"name": HOSTILE})

    text = element.removeprefix('<script type="application/json" class="data">').removesuffix("</script>")
    assert text.isascii()
    assert not {*"<>&"} & {*text}
    assert json.loads(text) == {"name": HOSTILE}
