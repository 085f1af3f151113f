from __future__ import annotations

import inspect
import os

from torch import nn

from fxcore.user_frame import is_library_file, user_frame, user_line


def test_the_innermost_frame_outside_of_fxcore_and_torch_is_the_user_s():
    here = inspect.currentframe()

    line = user_line()  # this one

    assert user_frame() is here
    assert line == f"{__file__}:{here.f_lineno - 3}: line = user_line()  # this one"


def test_a_call_through_torch_still_is_the_user_s_line():
    class Looking(nn.Module):
        def forward(self):
            return user_frame().f_code.co_name

    assert Looking()() == "forward"


def test_files_of_torch_and_fxcore_are_libraries():
    assert is_library_file(inspect.getfile(nn.Module))
    assert is_library_file(inspect.getfile(user_line))
    assert not is_library_file(os.path.abspath(__file__))
