"""Harmful edits of one layer."""

from __future__ import annotations

import torch
from torch import nn

from tests.outside_edits.edit import layers

layers(
    "layers",
    {
        "KernelSize": (lambda: nn.Conv2d(3, 4, 3), lambda: nn.Conv2d(3, 4, 5)),
        "Stride": (lambda: nn.Conv2d(3, 4, 3), lambda: nn.Conv2d(3, 4, 3, stride=2)),
        "Padding": (lambda: nn.Conv2d(3, 4, 3, padding=1), lambda: nn.Conv2d(3, 4, 3)),
        "PaddingOfOneAxis": (lambda: nn.Conv2d(3, 4, 3, padding=1), lambda: nn.Conv2d(3, 4, 3, padding=(1, 2))),
        "PaddingMode": (
            lambda: nn.Conv2d(3, 4, 3, padding=1),
            lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"),
        ),
        "PaddingByName": (
            lambda: nn.Conv2d(3, 4, 3, padding="same"),
            lambda: nn.Conv2d(3, 4, 3, padding="valid"),
        ),
        "Dilation": (lambda: nn.Conv1d(4, 4, 3), lambda: nn.Conv1d(4, 4, 3, dilation=2)),
        "Groups": (lambda: nn.Conv1d(4, 4, 3), lambda: nn.Conv1d(4, 4, 3, groups=4)),
        "ConvolutionBias": (lambda: nn.Conv1d(4, 4, 3), lambda: nn.Conv1d(4, 4, 3, bias=False)),
        "OutputPadding": (
            lambda: nn.ConvTranspose2d(3, 4, 3, stride=2),
            lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1),
        ),
        "TransposedForPlain": (lambda: nn.ConvTranspose2d(4, 4, 3), lambda: nn.Conv2d(4, 4, 3)),
        "Width": (lambda: nn.Linear(8, 16), lambda: nn.Linear(8, 32)),
        "LinearBias": (lambda: nn.Linear(8, 8), lambda: nn.Linear(8, 8, bias=False)),
        "Half": (lambda: nn.Linear(8, 8), lambda: nn.Linear(8, 8, dtype=torch.float16)),
        "NormEps": (lambda: nn.LayerNorm(8), lambda: nn.LayerNorm(8, eps=1e-6)),
        "NormWithoutWeights": (lambda: nn.LayerNorm(8), lambda: nn.LayerNorm(8, elementwise_affine=False)),
        "NormWithoutBias": (lambda: nn.LayerNorm(8), lambda: nn.LayerNorm(8, bias=False)),
        "NormOverMoreAxes": (lambda: nn.LayerNorm(8), lambda: nn.LayerNorm((8, 8))),
        "RmsForLayerNorm": (lambda: nn.LayerNorm(8, bias=False), lambda: nn.RMSNorm(8)),
        "RmsEps": (lambda: nn.RMSNorm(8), lambda: nn.RMSNorm(8, eps=1e-6)),
        "BatchNormEps": (lambda: nn.BatchNorm2d(4), lambda: nn.BatchNorm2d(4, eps=1e-3)),
        "BatchNormMomentum": (lambda: nn.BatchNorm2d(4), lambda: nn.BatchNorm2d(4, momentum=0.01)),
        "BatchNormCumulative": (lambda: nn.BatchNorm2d(4), lambda: nn.BatchNorm2d(4, momentum=None)),
        "BatchNormWithoutStatistics": (
            lambda: nn.BatchNorm2d(4),
            lambda: nn.BatchNorm2d(4, track_running_stats=False),
        ),
        "InstanceForBatchNorm": (
            lambda: nn.BatchNorm2d(4, affine=False, track_running_stats=False),
            lambda: nn.InstanceNorm2d(4),
        ),
        "GroupsOfGroupNorm": (lambda: nn.GroupNorm(2, 8), lambda: nn.GroupNorm(4, 8)),
        "DropoutRate": (lambda: nn.Dropout(0.1), lambda: nn.Dropout(0.5)),
        "DropoutOfChannels": (lambda: nn.Dropout(0.1), lambda: nn.Dropout2d(0.1)),
        "DropoutRemoved": (lambda: nn.Dropout(0.1), lambda: nn.Identity()),
        "Activation": (lambda: nn.ReLU(), lambda: nn.GELU()),
        "GeluApproximated": (lambda: nn.GELU(), lambda: nn.GELU(approximate="tanh")),
        "LeakySlope": (lambda: nn.LeakyReLU(), lambda: nn.LeakyReLU(0.2)),
        "EluAlpha": (lambda: nn.ELU(), lambda: nn.ELU(0.5)),
        "SlopesPerChannel": (lambda: nn.PReLU(), lambda: nn.PReLU(4)),
        "HardtanhBounds": (lambda: nn.Hardtanh(), lambda: nn.Hardtanh(0.0, 6.0)),
        "SoftplusThreshold": (lambda: nn.Softplus(), lambda: nn.Softplus(threshold=10)),
        "SoftmaxAxis": (lambda: nn.Softmax(-1), lambda: nn.Softmax(1)),
        "LogSoftmaxForSoftmax": (lambda: nn.Softmax(-1), lambda: nn.LogSoftmax(-1)),
        "GluAxis": (lambda: nn.GLU(), lambda: nn.GLU(1)),
        "PoolKernel": (lambda: nn.MaxPool2d(2), lambda: nn.MaxPool2d(3, 2, 1)),
        "PoolCeil": (lambda: nn.MaxPool2d(2), lambda: nn.MaxPool2d(2, ceil_mode=True)),
        "PoolReturnsIndices": (lambda: nn.MaxPool2d(2), lambda: nn.MaxPool2d(2, return_indices=True)),
        "MeanForMaximum": (lambda: nn.MaxPool2d(2), lambda: nn.AvgPool2d(2)),
        "PaddingCounted": (
            lambda: nn.AvgPool2d(3, padding=1),
            lambda: nn.AvgPool2d(3, padding=1, count_include_pad=False),
        ),
        "AdaptiveSize": (lambda: nn.AdaptiveAvgPool2d(1), lambda: nn.AdaptiveAvgPool2d((1, 2))),
        "UpsampleMode": (
            lambda: nn.Upsample(scale_factor=2),
            lambda: nn.Upsample(scale_factor=2, mode="bilinear"),
        ),
        "UpsampleCorners": (
            lambda: nn.Upsample(scale_factor=2, mode="bilinear"),
            lambda: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
        ),
        "EmbeddingSize": (lambda: nn.Embedding(10, 4), lambda: nn.Embedding(12, 4)),
        "EmbeddingPadding": (lambda: nn.Embedding(10, 4), lambda: nn.Embedding(10, 4, padding_idx=0)),
        "EmbeddingNorm": (lambda: nn.Embedding(10, 4), lambda: nn.Embedding(10, 4, max_norm=1.0)),
        "BagMode": (lambda: nn.EmbeddingBag(10, 4), lambda: nn.EmbeddingBag(10, 4, mode="sum")),
        "RecurrentLayers": (lambda: nn.LSTM(4, 4), lambda: nn.LSTM(4, 4, 2)),
        "BothDirections": (lambda: nn.GRU(4, 4), lambda: nn.GRU(4, 4, bidirectional=True)),
        "BatchFirst": (lambda: nn.LSTM(4, 4), lambda: nn.LSTM(4, 4, batch_first=True)),
        "RecurrentActivation": (lambda: nn.RNN(4, 4), lambda: nn.RNN(4, 4, nonlinearity="relu")),
        "GruForLstm": (lambda: nn.LSTM(4, 4), lambda: nn.GRU(4, 4)),
        "NormBeforeAttention": (
            lambda: nn.TransformerEncoderLayer(8, 2, 16),
            lambda: nn.TransformerEncoderLayer(8, 2, 16, norm_first=True),
        ),
        "ActivationOfFeedForward": (
            lambda: nn.TransformerEncoderLayer(8, 2, 16),
            lambda: nn.TransformerEncoderLayer(8, 2, 16, activation="gelu"),
        ),
        "NumberOfHeads": (
            lambda: nn.TransformerEncoderLayer(8, 2, 16),
            lambda: nn.TransformerEncoderLayer(8, 4, 16),
        ),
        "DropoutOfAttention": (
            lambda: nn.TransformerEncoderLayer(8, 2, 16),
            lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2),
        ),
        "ShuffleFactor": (lambda: nn.PixelShuffle(2), lambda: nn.PixelShuffle(4)),
        "FlattenFrom": (lambda: nn.Flatten(), lambda: nn.Flatten(2)),
        "PadValue": (lambda: nn.ConstantPad2d(1, 0.0), lambda: nn.ConstantPad2d(1, 1.0)),
        "PadReflects": (lambda: nn.ReplicationPad2d(1), lambda: nn.ReflectionPad2d(1)),
        "LayerAdded": (
            lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU()),
            lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)),
        ),
        "LayersExchanged": (
            lambda: nn.Sequential(nn.ReLU(), nn.BatchNorm1d(4)),
            lambda: nn.Sequential(nn.BatchNorm1d(4), nn.ReLU()),
        ),
        "NormMovedBehindTheActivation": (
            lambda: nn.Sequential(nn.Conv1d(4, 4, 1), nn.BatchNorm1d(4), nn.ReLU()),
            lambda: nn.Sequential(nn.Conv1d(4, 4, 1), nn.ReLU(), nn.BatchNorm1d(4)),
        ),
    },
)
