"""The plugin of `--fx-record-seeded`, for runs that are compared: each test begins with one seed.

Few suites set a seed. Their inputs, and shapes that depend on values, such as that of `x[x > 0]`, would differ between
two runs of one commit. A test that sets a seed of its own keeps it.
"""

from __future__ import annotations

import os
import random
import sys
from typing import Any

import pluggy

_SEED = 1
_hookimpl = pluggy.HookimplMarker("pytest")


@_hookimpl(tryfirst=True)
def pytest_configure(config: Any) -> None:
    """Keep pytest-randomly from drawing a seed and an order, and AOT autograd from its cache."""
    os.environ.setdefault("TORCHINDUCTOR_AUTOGRAD_CACHE", "0")  # a graph from the cache is not made, so not recorded
    if getattr(config.option, "randomly_seed", None) == "default":
        config.option.randomly_seed = _SEED
        config.option.randomly_reorganize = False


@_hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Seed Python, and numpy and torch if the tests imported them."""
    random.seed(_SEED)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed(_SEED)
    if torch is not None:
        torch.manual_seed(_SEED)
