from __future__ import annotations

import hashlib
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.documents import document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.errors import GoldenFormatError, GoldenNameError
from pytest_fxgraph.goldens.files import (
    Received,
    _ends_of_variants,
    base_path,
    begins_like_a_golden,
    file_tested_by,
    full_id,
    golden_digest,
    golden_of_all_ranks,
    golden_of_received,
    golden_path,
    goldens_below,
    is_received,
    ranks_path,
    ranks_served_by,
    read_received,
    received_path,
    variant_path,
    variant_paths,
    write_received,
)


def test_everything_named_like_a_golden_is_listed_and_no_link_is_followed(tmp_path):
    for name in ("b/t.yaml", "a/t.yaml", "a/t.received.yaml", "a/t.txt"):
        path = tmp_path / "golden" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "golden/loop").symlink_to(tmp_path)

    assert [str(path) for path in goldens_below(tmp_path / "golden")] == [
        "a/t.received.yaml",
        "a/t.yaml",
        "b/t.yaml",
    ]


def test_a_folder_that_is_not_there_holds_nothing(tmp_path):
    assert list(goldens_below(tmp_path / "nowhere")) == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"format: 1\nnodes:\n- {name: x}\n", True),
        (b"\xef\xbb\xbfformat: 1\r\nnodes: []\r\n", True),
        (b"# received\n\n---\nformat: 12\nnames: kept\nnodes: []\n", True),
        (b"format: 1\n", False),
        (b"format: 1\nrows:\n  nodes: 3\n", False),
        (b"format: yaml\nnodes: []\n", False),
        (b"on: push\nformat: 1\nnodes: []\n", False),
        (b"", False),
        (b"#" * 10_000, False),
    ],
)
def test_a_golden_is_told_by_how_it_begins(tmp_path, content, expected):
    path = tmp_path / "t.yaml"
    path.write_bytes(content)

    assert begins_like_a_golden(path) is expected


def test_the_file_that_a_golden_tests(tmp_path):
    (tmp_path / "spec.txt").touch()

    assert file_tested_by(PurePosixPath("tests/test_net/test_a.yaml"), tmp_path) == "tests/test_net.py"
    assert file_tested_by(PurePosixPath("spec.txt/test_a.yaml"), tmp_path) == "spec.txt"
    assert file_tested_by(PurePosixPath("test_a.yaml"), tmp_path) is None


GOLDEN = PurePosixPath("tests/test_net/test_net@torch-2.13.yaml")
TEXT = encode(document("return 1"))


def test_a_received_file_lies_beside_its_golden():
    assert received_path(GOLDEN) == PurePosixPath("tests/test_net/test_net@torch-2.13.received.yaml")
    assert golden_of_received(received_path(GOLDEN)) == GOLDEN
    assert is_received(received_path(GOLDEN))
    assert not is_received(GOLDEN)


@pytest.mark.parametrize("cause", [{}, {"level": "ops", "cluster": "1a"}])
@pytest.mark.parametrize("digest", [None, "0" * 64])
def test_a_received_file_reads_back(digest, cause):
    received = Received(TEXT, digest, cause)

    assert read_received(write_received(received), "x") == received


def test_a_received_file_is_read_as_a_golden_too():
    assert decode(write_received(Received(TEXT, None)), "x") == decode(TEXT, "x")


def test_the_digest_is_of_the_text_whatever_its_line_ends():
    assert golden_digest(TEXT.encode()) == golden_digest(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    assert golden_digest(TEXT.encode()) != golden_digest(TEXT.encode() + b"\n")


@pytest.mark.parametrize(
    "text", ["", TEXT, "# received by pytest --fx-received, compared with sha256:12\n", "# received\n" + TEXT]
)
def test_a_file_that_does_not_say_what_it_was_compared_with_is_refused(text):
    with pytest.raises(GoldenFormatError, match=r"cannot read x: its first line does not say which golden"):
        read_received(text, "x")


@pytest.mark.parametrize("version", ["2.13.0", "2.13.1+cpu", "2.13.0a0+git123", "2.13"])
def test_a_variant_serves_all_patch_versions_of_a_minor(version):
    assert variant_path(PurePosixPath("a/t.yaml"), version) == PurePosixPath("a/t@torch-2.13.yaml")


@pytest.mark.parametrize(
    "name", ["t.yaml", "t@torch-2.13.yaml", "t.received.yaml", "t@torch-2.13.received.yaml", "t@torch-10.0.yaml"]
)
def test_variants_and_received_files_belong_to_their_base(name):
    assert base_path(PurePosixPath("a", name)) == PurePosixPath("a/t.yaml")


@pytest.mark.parametrize("name", ["t@torch-2.yaml", "torch-2.13.yaml", "t%40torch-2.13~0123abcd.yaml"])
def test_other_names_are_their_own_base(name):
    assert base_path(PurePosixPath(name)) == PurePosixPath(name)


# The path of a test's golden.

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


@pytest.mark.parametrize("line", ["# cause: {", "# cause: [1]"])
def test_a_received_file_with_another_cause_is_refused(line):
    text = write_received(Received(TEXT, None, {"level": "ops"}))
    first, second, rest = text.split("\n", 2)
    assert second.startswith("# ")

    with pytest.raises(GoldenFormatError, match="cannot read x: its second line is no cause; it was edited; remove it"):
        read_received("\n".join([first, second.partition("{")[0] + line.partition(": ")[2], rest]), "x")


def test_a_folder_or_a_missing_file_is_no_golden(tmp_path):
    (tmp_path / "folder.yaml").mkdir()

    assert not begins_like_a_golden(tmp_path / "folder.yaml")
    assert not begins_like_a_golden(tmp_path / "nothing.yaml")


def test_a_test_without_a_file_has_no_golden():
    with pytest.raises(GoldenNameError, match="the test has no file; use assert_graph_matches_golden with a path"):
        golden_path("", (), "test_f")


def test_a_variant_for_ranks_names_them_and_belongs_to_its_golden():
    golden = PurePosixPath("test_x/test_f@torch-2.13.yaml")
    variant = ranks_path(golden, "1-3, 6")
    assert variant.name == "test_f@torch-2.13@ranks-1-3_6.yaml"
    assert ranks_served_by(variant) == {1, 2, 3, 6}
    assert ranks_served_by(golden) == frozenset()
    assert golden_of_all_ranks(variant) == golden
    assert base_path(variant).name == "test_f.yaml"


@pytest.mark.parametrize("has_cuda", [False, True])
def test_the_variants_of_a_platform_come_before_the_base(monkeypatch, has_cuda):
    monkeypatch.setattr("sys.platform", "darwin")
    _ends_of_variants.cache_clear()

    paths = variant_paths(PurePosixPath("a/t.yaml"), "2.13.0+cpu", has_cuda=has_cuda)

    cuda = "@cuda" if has_cuda else None
    ends = [f"@torch-2.13{cuda}" if cuda else None, "@torch-2.13@macos", "@torch-2.13", cuda, "@macos", ""]
    assert [str(path) for path in paths] == [f"a/t{end}.yaml" for end in ends if end is not None]
    _ends_of_variants.cache_clear()
