from __future__ import annotations

import pytest
import yaml

from pytest_fxgraph.document import yaml_reader
from pytest_fxgraph.document.model import YamlDataError
from pytest_fxgraph.document.yaml_reader import MOST_DEPTH, read_yaml


@pytest.fixture(params=["CSafeLoader", "SafeLoader"])
def _parser(request, monkeypatch):
    """Run a test with PyYAML's fast parser and with the one that is always there."""
    monkeypatch.setattr(yaml_reader, "_PARSER", getattr(yaml, request.param))


pytestmark = pytest.mark.usefixtures("_parser")


def test_texts_numbers_truth_sequences_and_mappings_are_read():
    data = read_yaml("a: 1\n'2': [x y, '3', true, \"\\u00e9\", {}]\nc: |-\n  one\n\n   two\n")

    assert data == {"a": 1, "2": ["x y", "3", True, "\u00e9", {}], "c": "one\n\n two"}
    assert data["2"].line == 2
    assert data.lines == {"a": 1, "2": 2, "c": 3}


def test_mappings_in_mappings_and_sequences_are_read():
    assert read_yaml("- {a: {b: [1, {c: 2}], d: 3}, e: 4}\n- false") == [
        {"a": {"b": [1, {"c": 2}], "d": 3}, "e": 4},
        False,
    ]
    assert read_yaml("a: {b: {c: 1}, d: 2}\ne: 3") == {"a": {"b": {"c": 1}, "d": 2}, "e": 3}


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("a: 1\nb: &name [1]", "it has an anchor .&name.", 2),
        ("a: 1\nb: *name", "it has an alias .[*]name.", 2),
        ("a: !!python/object:os.system x", "it has a tag .tag:yaml.org,2002:python/object:os.system.", 1),
        ("a: !local {}", "it has a tag .!local.", 1),
        ("%TAG ! tag:x,2000:\n---\na: 1", "it declares tags", 1),
        ("a: 1\nb: 2\na: 3", "the key 'a' stands there twice", 3),
        ("a: 1\n---\nb: 1", "it holds more than one YAML document", 2),
        ("1: a", "the key 1 is not quoted", 1),
        ("? [a]\n: b", "a key is not text", 1),
        ("? " * 100_000, "a key is not text", 1),
        ("a: 1.5", "'1.5' is not quoted, and YAML reads it as float", 1),
        ("a: 2026-01-01", "'2026-01-01' is not quoted, and YAML reads it as timestamp", 1),
        ("a: yes", "'yes' is not quoted, and YAML reads it as bool", 1),
        ("a:", "'' is not quoted, and YAML reads it as null", 1),
        ("a: 1\nb: [1\n", "it is not YAML", 3),
        ("a: \x00", "it is not YAML", 1),
        ("\n\na: \x00", "it is not YAML", 3),
        (f"a: {'9' * 19}", "'9999999999999999999' is not quoted, and YAML reads it as int", 1),
        ("", "it is empty", None),
    ],
)
def test_everything_else_is_refused_with_its_line(text, reason, line):
    with pytest.raises(YamlDataError, match=reason) as refusal:
        read_yaml(text)

    assert line is None or refusal.value.line == line


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 100_000])
def test_deep_nesting_is_refused_before_it_is_read(text):
    with pytest.raises(YamlDataError, match=f"it is nested deeper than {MOST_DEPTH} levels"):
        read_yaml(text)


def test_an_alias_bomb_is_refused_at_its_first_anchor():
    bomb = "a: &a [x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20)
    )

    with pytest.raises(YamlDataError, match=r"it has an anchor .&a."):
        read_yaml(bomb)


@pytest.mark.parametrize("indent", ["", "  "])
def test_what_would_take_minutes_to_read_is_refused_at_once(indent):
    text = "format: 1\nnodes:\n" + f"{indent}- {{name: a, op: output}}\n" * 400_000

    with pytest.raises(YamlDataError, match=r"^it has 400,000 nodes, modules and tensors, and 300,000 are the most$"):
        read_yaml(text)


def test_other_texts_that_would_take_minutes_are_refused_in_time(monkeypatch):
    monkeypatch.setattr(yaml_reader, "MOST_EVENTS", 1000)

    with pytest.raises(YamlDataError, match=r"^it holds more than 1,000 texts, lists and mappings$"):
        read_yaml(f"nodes: [{'a, ' * 2000}]")


def test_as_many_levels_digits_records_and_texts_as_allowed_are_read(monkeypatch):
    assert read_yaml("[" * MOST_DEPTH + "]" * MOST_DEPTH)
    with pytest.raises(YamlDataError, match="it is nested deeper than 256 levels"):
        read_yaml("[" * 257 + "]" * 257)
    assert read_yaml("9" * 18) == 10**18 - 1
    monkeypatch.setattr(yaml_reader, "MOST_RECORDS", 2)
    assert len(read_yaml("\n- {a: 1}\n- {a: 2}")) == 2
    with pytest.raises(YamlDataError, match="it has 3 nodes, modules and tensors, and 2 are the most"):
        read_yaml("\n- {a: 1}\n- {a: 2}\n- {a: 2}")
    monkeypatch.setattr(yaml_reader, "MOST_EVENTS", 7)
    assert read_yaml("[1, 2]") == [1, 2]
    with pytest.raises(YamlDataError, match="it holds more than 7 texts"):
        read_yaml("[1, 2, 3]")
