from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_fxgraph.errors import GoldenNameError
from pytest_fxgraph.goldens.location import full_id, golden_path

FILE = "tests/test_a.py"


def hashed(text):
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def path_of(function="test_f", params=None, name=None, classes=(), **more):
    return str(golden_path(FILE, classes, function, params, name, **more))


def test_a_golden_lies_in_the_folder_of_its_test_file():
    assert path_of() == "tests/test_a/test_f.yaml"
    assert path_of(classes=("Outer", "Inner")) == "tests/test_a/Outer.Inner.test_f.yaml"
    assert path_of(params="relu-2", name="big") == "tests/test_a/test_f-relu-2.big.yaml"
    assert str(golden_path("test_a.txt", (), "f")) == "test_a.txt/f.yaml"


def test_unnamed_goldens_after_the_first_are_counted():
    assert path_of(position=1) == "tests/test_a/test_f.yaml"
    assert path_of(position=2) == "tests/test_a/test_f.2.yaml"


def test_odd_characters_are_encoded_and_the_id_is_hashed():
    digest = hashed("tests/test_a.py::test_f[a/b c]")

    assert path_of(params="a/b c") == f"tests/test_a/test_f-a%2Fb%20c~{digest}.yaml"
    assert (
        path_of(name="\u00e9.x")
        == f"tests/test_a/test_f.%C3%A9%2Ex~{hashed('tests/test_a.py::test_f.' + chr(233) + '.x')}.yaml"
    )


def test_params_that_climb_stay_in_the_folder():
    assert path_of(params="../../x").startswith("tests/test_a/test_f-%2E%2E%2F%2E%2E%2Fx~")


def test_a_long_stem_is_cut_and_told_apart_by_its_hash():
    assert path_of(params="p" * 113).endswith("p" * 113 + ".yaml")

    long = path_of(params="p" * 114)

    assert long == f"tests/test_a/test_f-{'p' * 113}~{hashed('tests/test_a.py::test_f[' + 'p' * 114 + ']')}.yaml"
    assert long != path_of(params="p" * 115)


def test_an_encoded_character_is_not_cut_in_two():
    stem = path_of(params="p" * 112 + "/").removeprefix("tests/test_a/").partition("~")[0]

    assert stem == f"test_f-{'p' * 112}"


def test_ids_that_differ_in_case_alone_are_told_apart():
    lower, upper = (path_of(params=letter, has_case_collision=True) for letter in "aA")

    assert lower.lower() != upper.lower()
    assert lower == f"tests/test_a/test_f-a~{hashed('tests/test_a.py::test_f[a]')}.yaml"


@pytest.mark.parametrize(("classes", "function"), [((), "con"), (("Aux",), "test_f"), ((), "COM1")])
def test_devices_of_windows_are_no_file_names(classes, function):
    assert "~" in path_of(function, classes=classes)


def test_a_test_that_is_called_received_does_not_look_like_a_received_file():
    assert "~" in path_of("received", classes=("Test",))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("received", "[*].received.yaml is what --fx-received writes"),
        ("Received", "[*].received.yaml is what --fx-received writes"),
        ("2", "numbers count the unnamed goldens"),
        ("007", "numbers count the unnamed goldens"),
        ("../x", "'..' would leave the folder of this test"),
        ("a/..", "'..' would leave the folder of this test"),
        ("..\\x", "'..' would leave the folder of this test"),
        ("", "a name is a text that is not empty"),
        (3, "a name is a text that is not empty"),
    ],
)
def test_names_with_a_meaning_of_their_own_are_refused(name, words):
    with pytest.raises(GoldenNameError, match=words):
        path_of(name=name)


@pytest.mark.parametrize("file", ["../test_a.py", "/test_a.py", "C:\\test_a.py", "a\\..\\..\\b.py", "a/../../b.py"])
def test_a_test_outside_of_rootdir_is_refused(file):
    with pytest.raises(GoldenNameError, match=r"the file is not below rootdir.*run pytest with a --rootdir"):
        golden_path(file, (), "test_f")


@given(st.text(max_size=150), st.none() | st.text(min_size=1, max_size=150))
@settings(max_examples=50)
def test_every_id_has_a_portable_file_name_of_its_own(params, name):
    try:
        path = golden_path(FILE, ("C",), "test_f", params, name)
    except GoldenNameError:
        return

    assert str(path.parent) == "tests/test_a"
    assert path.name.isascii()
    assert len(path.name) <= 120 + 9 + 5
    assert not set(path.name) & set('<>:"/\\|?* \x7f')
    assert path == golden_path(FILE, ["C"], "test_f", params, name)


def test_the_full_id_is_pytests_id_and_the_name():
    assert full_id(FILE, ("A", "B"), "test_f", "p", "n") == "tests/test_a.py::A::B::test_f[p].n"
