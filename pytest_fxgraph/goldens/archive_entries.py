"""The entries of a `.pt2` archive of torch.export, inspected before torch loads the archive.

torch executes parts of an archive while it loads them: pickles that name functions, expressions of sizes (`eval`), text
of guards (`exec`), compiled code. Pickles of plain tensors and numbers name only the functions that build tensors.
"""

from __future__ import annotations

import ast
import json
import os
import pickletools
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from pytest_fxgraph.document.model import MOST_BYTES
from pytest_fxgraph.errors import ArchiveError

SUFFIX, ONNX_SUFFIX = ".pt2", ".onnx"
_MOST_ENTRIES = 100_000
# torch 2.6 and 2.7 write the second name.
_PROGRAM = re.compile(r"(?:\A|/)models/[^/]+\.json\Z|\Aserialized_exported_program\.json\Z")
_PAYLOADS = re.compile(r"(?:\A|/)data/(?:weights|constants)/[^/]+_config\.json\Z")
_EXECUTED = {
    re.compile(r"\Aserialized_(?:state_dict|constants)\.json\Z"): "is a pickle of an old release",
    re.compile(r"(?:\A|/)data/constants/(?:custom|opaque)_obj_"): "is a pickled object",
    re.compile(r"(?:\A|/)data/aotinductor/"): "is compiled code",
}
# Names in pickles by which torch builds tensors, sizes and dtypes.
_OF_TENSORS = re.compile(
    r"collections\.OrderedDict|torch\._utils\._rebuild_\w+|torch\.storage\.\w+|torch\.serialization\._get_layout|"
    r"torch\.nn\.parameter\.Parameter|torch\.(?:\w+Storage|Size|device|bool|[a-z]+\d\w*)"
)
_OPERATORS = re.compile(
    r"torch\.ops\.\w+\.\w+(?:\.\w+)?|_operator\.\w+|math\.\w+|torch\._?sym_\w+|torch\._C\._set_grad_enabled|"
    r"torch\.amp\.autocast_mode\._(?:enter|exit)_autocast"
)
# Functions and attributes in guards and in expressions of sizes, as str or sympy's srepr writes these.
_FUNCTIONS = re.compile(
    r"FloorDiv|ModularIndexing|Where|PythonMod|Mod|CleanDiv|CeilToInt|FloorToInt|CeilDiv|[LR]Shift|PowByNatural|"
    r"FloatPow|FloatTrueDiv|IntTrueDiv|IsNonOverlappingAndDenseIndicator|TruncTo(?:Float|Int)|RoundToInt|RoundDecimal|"
    r"ToFloat|Identity|OpaqueUnaryFn_\w+|Eq|Ne|Lt|Le|Gt|Ge|Equality|Unequality|(?:Strict)?(?:Less|Greater)Than|"
    r"Max|Min|And|Or|Not|Abs|Add|Mul|Pow|floor|ceiling|Rational|Integer|Float|Symbol|"
    r"size|stride|storage_offset|isnan|sym_\w+|inf"
)
_PLAIN = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Name, ast.Subscript, ast.Constant),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context, ast.keyword),
)


def is_model_path(subject: object) -> bool:
    """Return whether a subject or an argument is the path of a file with a model: `.pt2` or `.onnx`."""
    return isinstance(subject, (str, os.PathLike)) and os.fsdecode(subject).endswith((SUFFIX, ONNX_SUFFIX))


def check_archive(path: Path, *, trusts: bool, remedy: str) -> None:
    """Read the entries of an archive, and execute nothing.

    Raises ArchiveError for a file that is no whole archive of torch.export.save; and without `trusts`, with `remedy` as
    the next step, for an archive that makes torch execute more than its own operators.
    """
    if not path.is_file():  # a FIFO would wait for a writer
        raise ArchiveError(f"cannot read {path}: there is no such file; check the path")
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            _check_entries(archive, file.seek(0, os.SEEK_END))
            reason = None if trusts else next(_executed_parts(archive), None)
    except OSError as error:
        raise ArchiveError(f"cannot read {path}: {(error.strerror or str(error)).lower()}; check the path") from None
    except (zipfile.BadZipFile, RuntimeError, EOFError, TypeError, ValueError) as error:
        raise ArchiveError(
            f"cannot read {path}: it is no whole archive of torch.export.save: {error or 'it ends too early'}; "
            "save the program again"
        ) from None
    if reason is not None:
        raise ArchiveError(f"cannot read {path}: to load it executes a part of the file: {reason}; {remedy}")


def _check_entries(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse entries that torch never writes. Uncompressed entries cannot be larger than the file."""
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if len(names) > _MOST_ENTRIES or len(set(names)) < len(names):
        raise ValueError(f"it has more than {_MOST_ENTRIES} entries, or two of one name")
    for entry in entries:
        if entry.filename.startswith("/") or "\\" in entry.filename or ".." in entry.filename.split("/"):
            raise ValueError(f"the entry {entry.filename!r} leaves the archive")
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise ValueError(f"the entry {entry.filename!r} is compressed or encrypted, and torch writes none of these")
    if sum(entry.file_size for entry in entries) > size:
        raise ValueError("its entries overlap")
    if not any(map(_PROGRAM.search, names)):
        raise ValueError("it holds no exported program")


def _executed_parts(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield a reason for each part of an archive that torch executes."""
    for entry in archive.infolist():
        name = entry.filename
        yield from (f"{name} {reason}" for place, reason in _EXECUTED.items() if place.search(name))
        with archive.open(entry) as file:
            if name.endswith(".pt") and entry.file_size:
                yield from (f"{name} names {function}" for function in _functions_named_in(file))
            elif _PAYLOADS.search(name) or _PROGRAM.search(name):
                yield from (f"{name} has {part}" for part in _executed_texts(json.loads(_limited(file))))


def _functions_named_in(file: IO[bytes]) -> Iterator[str]:
    """Yield the names in a file of torch.save that do not only build tensors."""
    if not zipfile.is_zipfile(file):
        yield "functions in a form without entries"
        return
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            if entry.filename.endswith(".pkl"):
                with archive.open(entry) as pickled:
                    yield from _functions_pickled_in(_limited(pickled))


def _functions_pickled_in(content: bytes) -> Iterator[str]:
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name in ("GLOBAL", "INST"):
            name = str(argument).replace(" ", ".")
            if not _OF_TENSORS.fullmatch(name):
                yield name
        elif opcode.name == "STACK_GLOBAL" or opcode.name.startswith("EXT"):
            yield "a function that it finds while it is loaded"


def _executed_texts(value: Any) -> Iterator[str]:
    """Yield the texts in a program or in a list of tensors that torch would execute, apart from plain expressions."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        if isinstance(value, str) and "default_factory_module" in value:  # in the structure of the inputs
            yield "a defaultdict that names a function"
        if not isinstance(value, dict):
            continue
        pending += value.values()
        texts = [value.get("expr_str"), *(value.get("guards_code") or ())]
        yield from (f"the expression {text!r}" for text in texts if text is not None and not _is_plain(text))
        if "inputs" in value and "target" in value and not _OPERATORS.fullmatch(str(value["target"])):
            yield f"a call of {value['target']!r}, which is no operator of torch"
        if value.get("use_pickle"):
            yield f"the pickled tensor {value.get('path_name')}"


def _is_plain(text: object) -> bool:
    """Return whether an expression computes with numbers and sizes alone."""
    try:
        tree = ast.parse(str(text), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    names: set[ast.expr] = set()  # that a text may be: a key, or the name of a symbol
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            names.add(node.slice)
        function = node.func if isinstance(node, ast.Call) else node if isinstance(node, ast.Attribute) else None
        called = getattr(function, "attr", getattr(function, "id", None))
        if called in ("Symbol", "Float") and isinstance(node, ast.Call):
            names.update(node.args)
        if function is None and not isinstance(node, _PLAIN):
            return False
        if function is not None and (called is None or not _FUNCTIONS.fullmatch(called)):
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in names:
            return False
    return "\n" not in str(text)


def _limited(file: IO[bytes]) -> bytes:
    content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"an entry of text has more than {MOST_BYTES} bytes")
    return content
