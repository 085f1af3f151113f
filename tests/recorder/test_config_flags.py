from __future__ import annotations

import subprocess
import sys
import textwrap
import types

import pytest

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recorder import config_flags
from pytest_fxgraph.recorder.config_flags import ConfigFlag, arguments_for, check_flags, problems, read_flags


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("specialize_int=True", ("torch._dynamo.config", "specialize_int", True)),
        ("torch._dynamo.config.specialize_int = True", ("torch._dynamo.config", "specialize_int", True)),
        ("torch._inductor.config.triton.cudagraphs=False", ("torch._inductor.config", "triton.cudagraphs", False)),
        (
            "torch._functorch.config.activation_memory_budget=0.5",
            ("torch._functorch.config", "activation_memory_budget", 0.5),
        ),
        ("a='x=1'", ("torch._dynamo.config", "a", "x=1")),
        ("a=None", ("torch._dynamo.config", "a", None)),
    ],
)
def test_a_flag_has_a_module_a_name_and_a_value(text, flag):
    assert ConfigFlag.read(text) == flag


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "a=no",
            "cannot read the flag a=no: no is no literal of Python; write NAME=False or, for a text, 'NAME=\"VALUE\"'",
        ),
        ("a", "cannot read the flag a: nothing is no literal of Python"),
        ("a=print()", r"cannot read the flag a=print(): print() is no literal of Python"),
        ("a=" + "[" * 10_000, "is no literal of Python"),
        ("=1", "cannot read the flag =1: nothing lies in none of"),
        (
            "torch.fx.a=1",
            "cannot read the flag torch.fx.a=1: torch.fx.a lies in none of torch._dynamo.config, "
            "torch._inductor.config, torch._functorch.config; give the whole name",
        ),
        ("triton.cudagraphs=True", "triton.cudagraphs lies in none of torch._dynamo.config"),
        ("@nowhere/flags", "cannot read the flags in nowhere/flags: no such file or directory; name a file of flags"),
    ],
)
def test_a_flag_of_another_form_is_an_error(text, words):
    with pytest.raises(RecordingError) as caught:
        read_flags([text])

    assert words in str(caught.value)


def test_a_file_has_a_flag_on_each_line(tmp_path):
    file = tmp_path / "flags"
    file.write_text("# of Dynamo\n\n  a=1\nb=2  \n")

    assert read_flags(["b=2", f"@{file}", "c=3"]) == ["b=2", "a=1", "c=3"]


def test_flags_that_this_torch_cannot_have_are_told():
    told = problems(
        [
            "specialize_int=True",
            "specialise_int=True",
            "specialize_int=3",
            "torch._inductor.config.fallback_random='yes'",
            "torch._functorch.config.no_such_flag_at_all=1",
        ]
    )

    assert told[0].startswith(
        "specialise_int=True: torch._dynamo.config has no flag specialise_int; names like it: specialize_int"
    )
    assert told[1:3] == [
        "specialize_int=3: 3 is no bool",
        "torch._inductor.config.fallback_random='yes': 'yes' is no bool",
    ]
    assert told[3].startswith("torch._functorch.config.no_such_flag_at_all=1: torch._functorch.config has no flag")
    assert len(told) == 4


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
def test_each_flag_takes_the_value_that_it_has():
    import torch._dynamo.config
    import torch._functorch.config
    import torch._inductor.config

    wrong = []
    for config in (torch._dynamo.config, torch._inductor.config, torch._functorch.config):
        for name in config._config:
            problem = ConfigFlag(config.__name__, name, getattr(config, name)).problem()
            wrong += [f"{name}: {problem}"] if problem else []

    assert not wrong


def test_a_torch_without_the_flags_is_an_error_that_names_them(monkeypatch):
    monkeypatch.setattr(config_flags, "told_by", lambda python, program, *flags: [f"{each}: wrong" for each in flags])

    with pytest.raises(RecordingError, match=r"^cannot set flags in the torch of env/python: a=1: wrong; b=2: wrong$"):
        check_flags(["a=1", "b=2"], "env/python")


def test_a_run_without_flags_has_no_further_arguments():
    assert arguments_for([]) == []


def test_a_flag_of_a_module_that_is_imported_is_set_at_once(monkeypatch):
    config, cleanups, options = types.ModuleType("stand_in_config"), [], []
    config.first = config.second = 1
    monkeypatch.setitem(sys.modules, "stand_in_config", config)
    monkeypatch.setattr(config_flags, "_MODULES", ("stand_in_config",))
    finders = [*sys.meta_path]

    def configure(flags):
        known = types.SimpleNamespace(fx_config=flags)
        early_config = types.SimpleNamespace(known_args_namespace=known, add_cleanup=cleanups.append)
        config_flags.pytest_load_initial_conftests(early_config)

    config_flags.pytest_addoption(types.SimpleNamespace(addoption=lambda *names, **facts: options.append(names)))
    configure(["first=2", "stand_in_config.second='a'"])
    configure(None)

    assert (config.first, config.second) == (2, "a")
    assert options == [("--fx-config",)]
    for cleanup in cleanups:
        cleanup()
    assert sys.meta_path == finders


def test_flags_are_set_at_the_import_of_their_module_and_torch_is_not_imported_for_them(tmp_path):
    (tmp_path / "compiler_config.py").write_text("first, second = 1, 1\n")
    (tmp_path / "reader.py").write_text("from compiler_config import first\n")
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent("""
            import sys

            def test_it():
                assert "compiler_config" not in sys.modules and "torch" not in sys.modules
                import reader, compiler_config
                assert (reader.first, compiler_config.second) == (2, 1)
        """)
    )
    # A plugin that stands for torch: its module has the flags.
    (tmp_path / "stand_in.py").write_text(
        "from pytest_fxgraph.recorder import config_flags\nconfig_flags._MODULES = ('compiler_config',)\n"
    )
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "stand_in", *arguments_for(["first=2"])]

    result = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stdout
