"""Settings of torch that a call changes are named with both values, and put back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fxcore.state.settings import SETTINGS
from fxcore.state.snapshot import globals_kept

CHANGES: dict[str, Callable[[], object]] = {
    "grad mode": lambda: torch._C._set_grad_enabled(False),
    "the default dtype": lambda: torch.set_default_dtype(torch.float64),
    "the default device": lambda: torch.set_default_device("meta"),
    "autocast on cpu": lambda: torch.set_autocast_enabled("cpu", True),
    "autocast on cuda": lambda: torch.set_autocast_dtype("cuda", torch.bfloat16),
    "the depth of autocast": torch.autocast_increment_nesting,
    "the cache of autocast": lambda: torch.set_autocast_cache_enabled(False),
    "use of deterministic algorithms": lambda: torch.use_deterministic_algorithms(True),
    "cudnn.deterministic": lambda: torch._C._set_cudnn_deterministic(True),
    "cudnn.benchmark": lambda: torch._C._set_cudnn_benchmark(True),
    "anomaly detection": lambda: torch.autograd.set_detect_anomaly(True),
    "the number of threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "the precision of float32 matrix products": lambda: torch.set_float32_matmul_precision("medium"),
    "hooks of all modules": lambda: torch.nn.modules.module.register_module_forward_hook(print),
    "the number of modes for torch functions": lambda: torch.overrides.BaseTorchFunctionMode().__enter__(),
    "the print options": lambda: torch.set_printoptions(precision=7),
}


def test_every_setting_has_a_change_below():
    assert set(CHANGES) == {setting.path for setting in SETTINGS}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_setting_alone_is_named_and_put_back(name):
    setting = next(setting for setting in SETTINGS if setting.path == name)
    before = setting.read()

    with globals_kept() as snapshot:
        CHANGES[name]()
        changes = snapshot.changes()

    assert [(change.path, change.what, change.before) for change in changes] == [(name, "setting", before)]
    assert setting.read() == before
