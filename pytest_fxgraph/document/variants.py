"""Variants: `<stem>@torch-2.13.yaml` serves one minor version of torch where its graphs really differ."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TypeVar

from pytest_fxgraph.document.location import SUFFIX
from pytest_fxgraph.document.received import golden_of_received, is_received

# `@` is percent-encoded in what comes from a test's id, so no base file looks like a variant.
_VARIANT = re.compile(r"@torch-\d+\.\d+\Z")
_MINOR = re.compile(r"\d+\.\d+")

P = TypeVar("P", bound=PurePath)


def variant_path(base: P, torch_version: str) -> P:
    """Give the path of the variant for a version of torch such as "2.13.0+cpu"."""
    minor = _MINOR.match(torch_version)
    version = minor[0] if minor is not None else torch_version
    return base.with_name(f"{base.name.removesuffix(SUFFIX)}@torch-{version}{SUFFIX}")


def base_path(path: P) -> P:
    """Give the golden that a variant, or what was received, belongs to; a golden belongs to itself."""
    golden = golden_of_received(path) if is_received(path) else path
    return golden.with_name(_VARIANT.sub("", golden.name.removesuffix(SUFFIX)) + SUFFIX)
