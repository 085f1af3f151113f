"""Settings of torch that a call changes are named with both values, and put back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fxcore.state.settings import MODES, SETTINGS
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


@pytest.fixture
def at_rest():
    """Leave the settings as they were, also if a test fails."""
    with globals_kept():
        yield


@pytest.mark.usefixtures("at_rest")
@pytest.mark.parametrize("deeper", [-2, -1, 0, 1, 2])
def test_the_depth_of_autocast_is_put_back_from_either_side(deeper):
    depth = next(setting for setting in SETTINGS if setting.path == "the depth of autocast")
    depth.write(3)

    for _ in range(deeper):
        torch.autocast_increment_nesting()
    for _ in range(-deeper):
        torch.autocast_decrement_nesting()
    assert depth.read() == 3 + deeper
    depth.write(3)

    assert depth.read() == 3


@pytest.mark.usefixtures("at_rest")
def test_the_mode_of_a_default_device_is_no_mode_of_the_user():
    modes = next(setting for setting in SETTINGS if setting.path == MODES)
    device = next(setting for setting in SETTINGS if setting.path == "the default device")
    torch.set_default_device("meta")
    assert (modes.read(), device.read()) == (0, torch.device("meta"))
    torch.overrides.BaseTorchFunctionMode().__enter__()
    torch.overrides.BaseTorchFunctionMode().__enter__()
    assert modes.read() == 2

    modes.write(1)
    assert (modes.read(), device.read()) == (1, torch.device("meta"))
    modes.write(0)
    device.write(None)

    assert (modes.read(), device.read()) == (0, None)
    assert torch.ones(1).device.type == "cpu"


@pytest.mark.usefixtures("at_rest")
def test_hooks_of_all_modules_are_counted_and_put_back_in_their_order():
    hooks = next(setting for setting in SETTINGS if setting.path == "hooks of all modules")
    register = torch.nn.modules.module.register_module_forward_hook
    assert str(hooks.read()) == "0 hooks"
    register(print)
    assert str(hooks.read()) == "1 hook"
    register(len)
    torch.nn.modules.module.register_module_forward_pre_hook(repr)
    before = hooks.read()
    assert str(before) == "3 hooks"

    torch.nn.modules.module._global_forward_hooks.clear()
    register(abs)
    hooks.write(before)

    assert hooks.read() == before


@pytest.mark.usefixtures("at_rest")
@pytest.mark.parametrize("value", [(True, False), (True, True), (False, False)])
def test_deterministic_algorithms_are_put_back_with_or_without_warnings(value):
    setting = next(setting for setting in SETTINGS if setting.path == "use of deterministic algorithms")

    setting.write(value)

    assert setting.read() == value
    assert torch.are_deterministic_algorithms_enabled() is value[0]
    assert torch.is_deterministic_algorithms_warn_only_enabled() is value[1]


@pytest.mark.usefixtures("at_rest")
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_autocast_of_a_device_is_whether_and_to_which_dtype(device):
    setting = next(setting for setting in SETTINGS if setting.path == f"autocast on {device}")

    setting.write((True, torch.float16))

    assert (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) == (True, torch.float16)
    assert setting.read() == (True, torch.float16)


@pytest.mark.usefixtures("at_rest")
@pytest.mark.parametrize(("depth", "clears"), [(0, 1), (1, 0), (2, 0)])
def test_leaving_the_last_autocast_clears_its_cache(monkeypatch, depth, clears):
    setting, calls = next(each for each in SETTINGS if each.path == "the depth of autocast"), []
    setting.write(2)
    monkeypatch.setattr(torch, "clear_autocast_cache", lambda: calls.append(1))

    setting.write(depth)

    assert (setting.read(), len(calls)) == (depth, clears)


@pytest.mark.usefixtures("at_rest")
def test_a_default_device_is_put_back_that_was_there_before():
    torch.set_default_device("meta")

    with globals_kept():
        torch.set_default_device("cpu")

    assert torch.empty(1).device.type == "meta"
