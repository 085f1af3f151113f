from __future__ import annotations

import gc
import inspect
import linecache

import fxcore
from fxcore.codegen import source_cache
from fxcore.codegen.source_cache import SourceCache

SOURCE = "def double(x):\n    return x * 2"


def test_source_runs_and_can_be_shown():
    names = {}

    SourceCache().run(SOURCE, names)

    assert names["double"](3) == 6
    assert inspect.getsource(names["double"]).strip() == SOURCE


def test_the_file_name_says_what_was_traced():
    names = {}

    SourceCache().run(SOURCE, names, {"co_name": "forward", "co_filename": "model.py", "co_firstlineno": 7})

    assert names["double"].__code__.co_filename == "<eval_with_key>.0 from model.py:7 in forward"


def test_lines_are_forgotten_with_the_function():
    names = {}
    SourceCache().run(SOURCE, names, {"co_name": "a", "co_filename": "only_here.py", "co_firstlineno": 1})
    file_name = names["double"].__code__.co_filename
    assert linecache.getline(file_name, 2) == "    return x * 2\n"

    del names["double"]
    gc.collect()

    assert file_name not in linecache.cache


def test_recompiling_again_and_again_keeps_one_entry():
    module = fxcore.symbolic_trace(lambda x: x + 1)
    module(1)
    before = len(linecache.cache)

    for _ in range(50):
        module.recompile()
        module(1)
    gc.collect()

    assert len(linecache.cache) <= before


def test_equal_sources_are_functions_of_their_own():
    cache, first, second = SourceCache(), {"__name__": "a"}, {"__name__": "b"}

    cache.run(SOURCE, first)
    cache.run(SOURCE, second)

    assert first["double"] is not second["double"]
    assert first["double"].__globals__ is first
    assert first["double"].__code__.co_filename != second["double"].__code__.co_filename


def test_annotations_are_evaluated():
    names = {}

    SourceCache().run("def double(x: int) -> list[int]:\n    return [x, x]", names)

    assert names["double"].__annotations__ == {"x": int, "return": list[int]}


def test_the_sources_of_late_are_compiled_once(monkeypatch):
    compiled = []

    def counting(source, *args, **kwargs):
        compiled.append(source)
        return compile(source, *args, **kwargs)

    monkeypatch.setattr(source_cache, "compile", counting, raising=False)
    monkeypatch.setattr(source_cache, "_MOST_CODE_OBJECTS", 2)
    cache = SourceCache()
    for source in ("a = 1", "b = 1", "a = 1", "c = 1", "a = 1", "b = 1"):
        cache.run(source, {})

    assert compiled == ["a = 1", "b = 1", "c = 1", "b = 1"]
    cache.forget_compiled()
    cache.run("b = 1", {})
    assert compiled[-2:] == ["b = 1", "b = 1"]
