from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from pytest_fxgraph.document.variants import base_path, variant_path


@pytest.mark.parametrize("version", ["2.13.0", "2.13.1+cpu", "2.13.0a0+git123", "2.13"])
def test_a_variant_serves_all_patch_versions_of_a_minor(version):
    assert variant_path(PurePosixPath("a/t.yaml"), version) == PurePosixPath("a/t@torch-2.13.yaml")


@pytest.mark.parametrize(
    "name", ["t.yaml", "t@torch-2.13.yaml", "t.received.yaml", "t@torch-2.13.received.yaml", "t@torch-10.0.yaml"]
)
def test_variants_and_received_files_belong_to_their_base(name):
    assert base_path(PurePosixPath("a", name)) == PurePosixPath("a/t.yaml")


@pytest.mark.parametrize("name", ["t@torch-2.yaml", "torch-2.13.yaml", "t%40torch-2.13~0123abcd.yaml"])
def test_other_names_are_their_own_base(name):
    assert base_path(PurePosixPath(name)) == PurePosixPath(name)
