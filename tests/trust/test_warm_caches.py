"""Kernels of a model that torch.compile put into Inductor's caches before: a capture finds them all the same."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from pytest_fxgraph import capture
from pytest_fxgraph.captures import inductor_internals
from pytest_fxgraph.errors import CaptureError

ROOT = Path(__file__).parents[2]
MODELS = "tests.trust.test_kernel_goldens"
COMPILED = f"""
import sys, torch
from {MODELS} import MODELS

def compiled(name):
    make, inputs = MODELS[name]
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(make().eval())(*inputs())
    found = torch._dynamo.utils.counters["inductor"]
    return "hit" if found["fxgraph_cache_hit"] else "miss"
"""
CAPTURED = f"""
import torch
from {MODELS} import MODELS
from pytest_fxgraph import capture
from pytest_fxgraph.captures import inductor_internals

def captured(name):
    make, inputs = MODELS[name]
    return sorted(kernel.text for kernel in capture(make(), inputs(), frontend="inductor").kernels)
"""
STALE = """
import contextlib
import torch._inductor.utils as utils
from pytest_fxgraph.captures import inductor_internals

inductor_internals._SETTINGS = {"compile_threads": 1}
for name in ("fresh_cache", "fresh_inductor_cache"):
    if hasattr(utils, name):
        setattr(utils, name, lambda dir=None: contextlib.nullcontext())
"""
NAMES = ("mlp", "attention")


def run(program, folder):
    environ = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++")
def test_kernels_are_the_same_after_another_process_or_this_one_compiled_the_models(tmp_path):
    compiling = f"{COMPILED}\nfor name in {NAMES}: print(compiled(name))"
    capturing = f"{CAPTURED}\nfor name in {NAMES}: print(captured(name))"

    cold = run(capturing, tmp_path / "cold")
    assert run(compiling, tmp_path / "warm") == ["miss"] * len(NAMES)
    assert run(compiling, tmp_path / "warm") == ["hit"] * len(NAMES)

    assert cold == run(capturing, tmp_path / "warm")
    assert cold == run(
        f"{COMPILED}{CAPTURED}\nfor name in {NAMES}: compiled(name), print(captured(name))", tmp_path / "warm"
    )
    # Without fresh caches, Inductor takes the compiled program, and makes no kernels.
    assert run(STALE + capturing, tmp_path / "warm") == ["[]"] * len(NAMES)


@contextlib.contextmanager
def _warm(model, inputs, folder):
    """Fill the caches of a folder with a model whose program needs no compiler: it only calls a library."""
    utils = pytest.importorskip("torch._inductor.utils")
    config = pytest.importorskip("torch._inductor.config")
    fresh_cache = getattr(utils, "fresh_cache", None) or utils.fresh_inductor_cache
    with fresh_cache(dir=str(folder)), inductor_internals._without_compiler(), torch.no_grad():
        with config.patch(compile_threads=1):
            torch._dynamo.reset()
            torch.compile(model)(*inputs)
        yield
    torch._dynamo.reset()


@pytest.mark.slow
def test_a_model_in_the_caches_of_this_process_has_its_kernels(tmp_path, monkeypatch):
    model, inputs = nn.Linear(4, 4).eval(), (torch.rand(2, 4),)
    cold = [kernel.text for kernel in capture(model, inputs, frontend="inductor").kernels]
    with _warm(model, inputs, tmp_path):
        found = [capture(model, inputs, frontend="inductor").kernels for _ in range(2)]
        assert [[kernel.text for kernel in kernels] for kernels in found] == [cold, cold]
        assert len(cold) == 1

        monkeypatch.setattr(inductor_internals, "_SETTINGS", {"compile_threads": 1})
        for name in ("fresh_cache", "fresh_inductor_cache"):
            monkeypatch.setattr(f"torch._inductor.utils.{name}", lambda **_: contextlib.nullcontext(), raising=False)
        try:
            warm = capture(model, inputs, frontend="inductor").kernels
        except CaptureError:  # torch 2.6 makes no program of a graph that it finds in its cache
            warm = []
        assert warm == [], "the caches are warm"
