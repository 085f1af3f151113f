from __future__ import annotations

import torch
from boxes import Detector, large_first


def test_the_order_of_boxes_does_not_matter(fx_transform):
    torch.manual_seed(0)

    fx_transform(large_first, Detector().eval(), torch.rand(3, 8))
