"""The entries of `.pt2` archives are inspected before torch loads an archive."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import zipfile

import pytest
import torch

from fixtures import exported_archives as archives
from pytest_fxgraph.errors import ArchiveError
from pytest_fxgraph.goldens import archive_entries
from pytest_fxgraph.goldens.archive_entries import check_archive, is_model_path

REMEDY = "ask its author"


def refusal(path, *, trusts=False) -> str:
    with pytest.raises(ArchiveError) as caught:
        check_archive(path, trusts=trusts, remedy=REMEDY)
    return str(caught.value)


@pytest.fixture
def path(tmp_path):
    return archives.saved(tmp_path / "model.pt2")


def test_a_path_of_a_file_with_a_model_is_told_by_its_end(tmp_path):
    assert is_model_path("model.pt2")
    assert is_model_path("model.onnx")
    assert is_model_path(tmp_path / "model.pt2")
    assert not any(map(is_model_path, ["model.pt", "model.onnx.yaml", b"model.pt2", 2, None, torch.nn.ReLU()]))


@pytest.mark.parametrize("save", [archives.saved, archives.saved_as_by_torch_2_6])
def test_what_torch_saves_of_plain_programs_needs_no_trust(tmp_path, save):
    check_archive(save(tmp_path / "model.pt2"), trusts=False, remedy=REMEDY)


def test_expressions_of_sizes_and_guards_need_no_trust(tmp_path):
    class Dynamic(torch.nn.Module):
        def forward(self, x):
            return torch.cat([x, x]).reshape(-1)

    shapes = ({0: torch.export.Dim("rows", min=4, max=1024)},)
    program = torch.export.export(Dynamic(), (torch.ones(8, 4),), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "model.pt2")

    with zipfile.ZipFile(tmp_path / "model.pt2") as archive:
        name = next(name for name in archive.namelist() if name.endswith(archives.PROGRAM))
        assert b"expr_str" in archive.read(name)
    check_archive(tmp_path / "model.pt2", trusts=False, remedy=REMEDY)


@pytest.mark.parametrize("spoil", [archives.with_pickled_inputs, archives.with_bare_pickle])
@pytest.mark.parametrize("save", [archives.saved, archives.saved_as_by_torch_2_6])
def test_a_pickle_that_names_a_function_needs_trust_and_is_not_run(tmp_path, save, spoil):
    path = spoil(save(tmp_path / "model.pt2"), tmp_path / "created")

    message = refusal(path)

    function = r"names (_?io\.open|functions in a form without entries)"
    assert re.search(
        rf"model\.pt2: to load it executes a part of the file: .*_?inputs.*\.pt {function}; ask its", message
    )
    check_archive(path, trusts=True, remedy=REMEDY)
    assert not (tmp_path / "created").exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("data/constants/opaque_obj_0", "is a pickled object"),
        ("data/constants/custom_obj_0", "is a pickled object"),
        ("data/aotinductor/model/model.so", "is compiled code"),
    ],
)
def test_objects_and_compiled_code_need_trust(path, name, reason):
    assert f"{name} {reason}; {REMEDY}" in refusal(archives.with_entry(path, name, b"anything"))


def test_pickled_tensors_need_trust(path):
    config = b'{"config": {"w": {"path_name": "weight_0", "use_pickle": true}}}'
    archives.with_entry(path, "data/weights/other_weights_config.json", config)

    assert "other_weights_config.json has the pickled tensor weight_0" in refusal(path)


EXECUTED = [
    ({"expr_str": "__import__('os').getpid()"}, "the expression \"__import__('os').getpid()\""),
    ({"expr_str": "eval(chr(49))"}, "the expression 'eval(chr(49))'"),
    ({"expr_str": "Max(1, open(2))"}, "the expression 'Max(1, open(2))'"),
    ({"expr_str": "s0.__class__"}, "the expression 's0.__class__'"),
    ({"expr_str": "Max(s0, 'text')"}, "the expression \"Max(s0, 'text')\""),
    ({"expr_str": "Max(*s0)"}, "the expression 'Max(*s0)'"),
    ({"expr_str": "[x for x in s0]"}, "the expression '[x for x in s0]'"),
    ({"expr_str": "(lambda: 1)()"}, "the expression '(lambda: 1)()'"),
    ({"expr_str": "S('__import__(0)')"}, "the expression \"S('__import__(0)')\""),
    ({"expr_str": "Symbol(eval('1'))"}, "the expression \"Symbol(eval('1'))\""),
    ({"expr_str": "Symbol('s').subs('1', 2)"}, "the expression \"Symbol('s').subs('1', 2)\""),
    ({"expr_str": "Max(0, key='text')"}, "the expression \"Max(0, key='text')\""),
    ({"expr_str": "f'{s0}'"}, "the expression \"f'{s0}'\""),
    ({"expr_str": "(" * 1000}, "the expression '((("),
    ({"guards_code": ["L['x'].numpy().tofile('x')"]}, "the expression \"L['x'].numpy()"),
    ({"guards_code": ["True #\nimport os"]}, "the expression 'True #\\nimport os'"),
    ({"target": "torch.os.system", "inputs": []}, "a call of 'torch.os.system', which is no operator of torch"),
    ({"target": "torch.ops.load_library", "inputs": []}, "a call of 'torch.ops.load_library'"),
    ({"in_spec": '[1, {"default_factory_module": "antigravity"}]'}, "a defaultdict that names a function"),
]


@pytest.mark.parametrize(("part", "reason"), EXECUTED, ids=lambda value: str(value)[:60])
def test_texts_that_torch_would_execute_need_trust(path, part, reason):
    archives.with_changed_program(path, lambda program: program.update(hostile={"part": [part]}))

    assert f"has {reason}" in refusal(path)
    check_archive(path, trusts=True, remedy=REMEDY)


PLAIN = [
    "s0",
    "2*s0 + 1",
    "Max(1, FloorDiv(s0, 2))",
    "Eq(u0, 3)",
    "(s0 < 4) & (s1 > -2)",
    "True",
    "-9223372036854775807",
]
GUARDS = ["L['x'].size()[0] >= 2", "L['args'][0]['k'].stride()[1] == 4", "not math.isnan(L['f'])", "L['n'] == 3"]


@pytest.mark.parametrize("text", [*PLAIN, *GUARDS])
def test_plain_expressions_need_no_trust(path, text):
    archives.with_changed_program(path, lambda program: program.update(more={"expr_str": text, "guards_code": [text]}))

    check_archive(path, trusts=False, remedy=REMEDY)


def test_a_file_that_is_no_archive_is_refused(tmp_path):
    (tmp_path / "text.pt2").write_text("no archive", encoding="utf-8")
    (tmp_path / "empty.pt2").touch()
    torch.save(torch.ones(2), tmp_path / "tensor.pt2")

    begin = f"cannot read {tmp_path}/"
    end = "; save the program again"
    torch_saves = "it is no whole archive of torch.export.save: "
    assert refusal(tmp_path / "text.pt2") == f"{begin}text.pt2: {torch_saves}File is not a zip file{end}"
    assert refusal(tmp_path / "empty.pt2") == f"{begin}empty.pt2: {torch_saves}File is not a zip file{end}"
    assert refusal(tmp_path / "tensor.pt2") == f"{begin}tensor.pt2: {torch_saves}it holds no exported program{end}"
    assert refusal(tmp_path / "none.pt2") == f"{begin}none.pt2: there is no such file; check the path"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_a_fifo_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "model.pt2")

    assert "there is no such file" in refusal(tmp_path / "model.pt2")


def test_a_truncated_archive_is_refused(path):
    content = path.read_bytes()
    for length in range(0, len(content), max(len(content) // 50, 1)):
        path.write_bytes(content[:length])

        assert "it is no whole archive of torch.export.save" in refusal(path, trusts=True)


def test_compressed_entries_are_refused_because_they_may_be_of_any_size(path):
    archives.rewritten(
        path, archives.PROGRAM, lambda content: content + b" " * 10_000_000, compression=zipfile.ZIP_DEFLATED
    )

    assert path.stat().st_size < 100_000
    assert "is compressed or encrypted, and torch writes none of these" in refusal(path, trusts=True)


@pytest.mark.parametrize("name", ["../../outside", "/etc/passwd", "a\\..\\b"])
def test_entries_that_leave_the_archive_are_refused(path, name):
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, b"")

    assert f"the entry {name!r} leaves the archive" in refusal(path, trusts=True)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_entries_of_one_name_are_refused(path):
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(archive.namelist()[0], b"")

    assert "or two of one name" in refusal(path, trusts=True)


@pytest.mark.parametrize("content", [b"no JSON", b"\xff\xfe", b"[" * 100_000, b'{"guards_code": 5}'])
def test_a_program_that_is_no_json_is_refused(path, content):
    archives.rewritten(path, archives.PROGRAM, lambda _: content)

    assert "it is no whole archive of torch.export.save: " in refusal(path)


def test_pickles_of_later_protocols_need_trust_if_they_name_anything(path):
    content = pickle.dumps(archives.Creating(path), protocol=4)
    with zipfile.ZipFile(path.with_suffix(".zip"), "w") as saved:
        saved.writestr("archive/data.pkl", content)
    archives.rewritten(path, archives.INPUTS, lambda _: path.with_suffix(".zip").read_bytes())

    assert "names a function that it finds while it is loaded" in refusal(path)


def test_entries_that_overlap_are_refused_because_they_may_unpack_to_any_size(path):
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("large", b"x" * 10_000)
        for number in range(2):
            again = copy.copy(archive.getinfo("large"))
            again.filename = f"again{number}"
            archive.filelist.append(again)

    assert "its entries overlap" in refusal(path, trusts=True)


@pytest.mark.parametrize("room", [0, 1])
def test_a_program_of_more_text_than_any_golden_is_refused(path, monkeypatch, room):
    with zipfile.ZipFile(path) as archive:
        largest = max(len(archive.read(name)) for name in archive.namelist() if name.endswith(".json"))
    monkeypatch.setattr(archive_entries, "MOST_BYTES", largest - 1 + room)

    if room:
        check_archive(path, trusts=False, remedy=REMEDY)
    else:
        assert f"an entry of text has more than {largest - 1} bytes" in refusal(path)


def test_an_archive_that_the_system_cannot_read_is_refused_with_the_systems_reason(path, monkeypatch):
    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(zipfile, "ZipFile", fail)

    assert refusal(path) == f"cannot read {path}: input/output error; check the path"


def crafted(path, program, compression=zipfile.ZIP_STORED):
    """Write an archive with one program, that torch would not write."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("a/models/model.json", json.dumps(program))
    return path


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ({}, None),
        ({"target": "os.system", "inputs": []}, "a call of 'os.system', which is no operator of torch"),
        ([{"nodes": [{"target": "os.system", "inputs": []}]}], "a call of 'os.system'"),
        ({"target": "torch.ops.aten.relu.default", "inputs": []}, None),
        ({"target": "os.system"}, None),  # of no call
        ({"inputs": []}, None),
        ({"use_pickle": True, "path_name": "w"}, "the pickled tensor w"),
        ({"use_pickle": False, "path_name": "w"}, None),
        ({"expr_str": "os.system(1)"}, "the expression 'os.system"),
        ({"expr_str": "s0 + 1"}, None),
        ({"guards_code": ["L > 1", "exit()"]}, "the expression 'exit"),
    ],
)
def test_parts_of_a_program_that_torch_executes_are_named(tmp_path, program, reason):
    path = crafted(tmp_path / "model.pt2", program)

    if reason is None:
        check_archive(path, trusts=False, remedy=REMEDY)
    else:
        assert reason in refusal(path)


@pytest.mark.parametrize("is_compressed", [True, False])
def test_compressed_and_encrypted_entries_are_refused(tmp_path, is_compressed):
    path = crafted(tmp_path / "model.pt2", {}, zipfile.ZIP_DEFLATED if is_compressed else zipfile.ZIP_STORED)
    if not is_compressed:
        content = bytearray(path.read_bytes())
        content[content.index(b"PK\x01\x02") + 8] |= 1  # the flags of the entry in the directory
        path.write_bytes(content)

    assert "is compressed or encrypted, and torch writes none of these" in refusal(path)


@pytest.mark.parametrize("name", ["/etc/x", "a\\b", "../x", "a/../x"])
def test_an_entry_that_leaves_the_archive_is_refused(tmp_path, name):
    path = crafted(tmp_path / "model.pt2", {})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, "")

    assert f"the entry {name!r} leaves the archive" in refusal(path)


@pytest.mark.parametrize(
    ("text", "is_plain"),
    [("Symbol('s0')", True), ("Float('1.5', precision=53)", True), ("Max('s0', 1)", False), ("L.Symbol", True)],
)
def test_a_text_in_an_expression_is_the_name_of_a_symbol_or_a_number(tmp_path, text, is_plain):
    path = crafted(tmp_path / "model.pt2", {"expr_str": text})

    if is_plain:
        check_archive(path, trusts=False, remedy=REMEDY)
    else:
        assert f"the expression {text!r}" in refusal(path)
