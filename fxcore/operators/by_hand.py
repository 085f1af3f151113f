"""What no schema says about operators. `generate` joins it with what the schemas say; nothing else reads it.

A plain name is torch.NAME, Tensor.NAME and torch.nn.functional.NAME; a name with dots is that one function.
"""

from __future__ import annotations

from fxcore.operators.syntax import INPLACE_OPERATORS, OPERATORS


def _words(prefix: str, text: str) -> frozenset[str]:
    return frozenset(prefix + name for name in text.split())


def _pairs(text: str) -> dict[str, str]:
    return {name: operator for name, _, operator in (pair.partition("=") for pair in text.split())}


_CHANGING = [*INPLACE_OPERATORS, "delitem"]

# Fact -> names for which it holds.
FLAGS: dict[str, frozenset[str]] = {
    # The result never shares storage with an argument. Functions that torch writes in Python and methods that give
    # plain values have no schema, nor have Python's own operators and torch.nn's modules (unless they work in place).
    "non_aliasing": _words(
        "",
        """
        batch_norm cross_entropy data_ptr element_size fft grid_sample gumbel_softmax interpolate local_response_norm
        logsigmoid ndimension new_tensor normalize softmin softsign tanhshrink tensor tolist unique upsample
        """,
    )
    | {f"operator.{name}" for name in OPERATORS if name not in ("getitem", "pos")}
    | _words("operator.", "inv abs not_ truth is_ is_not contains index countOf indexOf length_hint")
    | _words("builtins.", "len int float bool complex str isinstance issubclass range hash id repr type abs")
    | _words(
        "torch.nn.",
        """
        Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Linear Bilinear Embedding EmbeddingBag
        BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm
        GroupNorm RMSNorm LocalResponseNorm CrossMapLRN2d ReLU ReLU6 LeakyReLU PReLU RReLU ELU CELU SELU GELU SiLU Mish
        Sigmoid Tanh Hardtanh Hardsigmoid Hardswish Softplus Softsign Softshrink Hardshrink Tanhshrink LogSigmoid GLU
        Threshold Softmax LogSoftmax Softmin Softmax2d MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d
        LPPool1d LPPool2d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d
        AdaptiveMaxPool3d Upsample UpsamplingNearest2d UpsamplingBilinear2d CosineSimilarity PairwiseDistance L1Loss
        MSELoss CrossEntropyLoss NLLLoss KLDivLoss BCELoss BCEWithLogitsLoss SmoothL1Loss HuberLoss
        """,
    )
    # Attributes of a tensor that are no view of it.
    | _words("Tensor.", "shape dtype device ndim layout requires_grad is_cuda itemsize nbytes names"),
    # Draw random numbers or set the generator that draws them, and are written in Python.
    "random": _words(
        "",
        """
        dropout1d dropout2d dropout3d fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d
        fractional_max_pool3d_with_indices gumbel_softmax kaiming_normal_ kaiming_uniform_ manual_seed
        multi_head_attention_forward orthogonal_ seed set_rng_state sparse_ trunc_normal_ xavier_normal_
        xavier_uniform_
        """,
    ),
    # Talk to the outside, or stop the program: a schema does not say so.
    "side_effect": _words("builtins.", "print input open exec eval")
    | _words(
        "torch.",
        """
        _assert _assert_async _assert_scalar _assert_tensor_metadata _check _check_is_size _check_index _check_value
        _check_type _check_not_implemented _check_tensor_all
        """,
    )
    | _words(
        "aten.",
        """
        _assert_async.default _assert_async.msg _assert_scalar.default _print.default _assert_tensor_metadata.default
        sym_constrain_range.default sym_constrain_range_for_size.default
        """,
    )
    | {"warnings.warn"},
    # Change how everything after them computes.
    "global_state": _words(
        "",
        """
        _set_grad_enabled set_grad_enabled inference_mode _enter_inference_mode _exit_inference_mode _enter_autocast
        _exit_autocast set_autocast_enabled set_autocast_dtype set_default_dtype set_default_device
        use_deterministic_algorithms set_flush_denormal
        """,
    ),
    # Change their first argument, though no underscore at the end of their name says so: Python's.
    "mutates": _words("", "append extend insert pop popitem remove clear reverse update setdefault discard")
    | {f"__{name}__" for name in _CHANGING}
    | {f"operator.{name}" for name in [*_CHANGING, "iconcat"]}
    | _words("builtins.", "setattr delattr next"),
    # Change what the tensor keeps beside its values.
    "changes_state": _words("", "backward register_hook"),
    # The two operands may change places: mathematics.
    "commutative": _words("operator.", "add mul and_ or_ xor eq ne")
    | _words(
        "",
        """
        add mul multiply eq ne not_equal maximum minimum fmax fmin hypot isclose logical_and logical_or logical_xor
        bitwise_and bitwise_or bitwise_xor logaddexp logaddexp2 gcd lcm
        """,
    ),
    # What torch.fx's elimination of common subexpressions leaves alone: its public list, shorter than all that is
    # random or works in place.
    "cse_banned": _words(
        "aten.",
        """
        _fused_dropout _standard_gamma bernoulli binomial dropout multinomial native_dropout normal poisson rand
        rand_like randint randn randperm rrelu
        add_ div_ lerp_ mul_ pow_ relu_ sigmoid_ sub_ tanh_
        """,
    ),
}

# Operators whose schemas promise a new tensor, and that may return an argument or a view of one; the methods `index`,
# `resize` and `resize_as` are others than the operators of that name.
MAY_ALIAS = _words(
    "",
    """
    broadcast_tensors chalf dequantize einsum flatten_dense_tensors index meshgrid resize resize_as sum_to_size to_dense
    to_mkldnn to_sparse to_sparse_bsc to_sparse_bsr to_sparse_csc to_sparse_csr type_as unflatten_dense_tensors
    unsafe_split unsafe_split_with_sizes
    """,
)

# Backends and internals that no program calls by name.
INTERNAL = ("cudnn_", "miopen_", "mkldnn_", "fbgemm_", "quantized_", "slow_", "thnn_")

# Operators of which `normalize` knows the spellings, a choice of ours: torch.NAME and Tensor.NAME.
NORMALIZED = _words(
    "",
    """
    relu sigmoid tanh abs neg exp log sqrt rsqrt sin cos erf softmax log_softmax flatten unsqueeze transpose chunk add
    sub mul div pow matmul eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor
    """,
)
# The same and more in torch.nn.functional.
NORMALIZED_FUNCTIONAL = _words(
    "", "relu sigmoid tanh softmax log_softmax gelu silu leaky_relu elu relu6 hardtanh softplus"
)
# Other names of these operators.
SPELLINGS = _pairs(
    """
    operator.add=add operator.sub=sub operator.mul=mul operator.truediv=div operator.pow=pow operator.matmul=matmul
    operator.neg=neg operator.abs=abs operator.eq=eq operator.ne=ne operator.lt=lt operator.le=le operator.gt=gt
    operator.ge=ge operator.and_=bitwise_and operator.or_=bitwise_or operator.xor=bitwise_xor
    torch.multiply=mul torch.subtract=sub torch.divide=div torch.absolute=abs
    """
)
# Classes in torch.nn that call them.
MODULE_SPELLINGS = _pairs(
    """
    ReLU=relu Sigmoid=sigmoid Tanh=tanh Softmax=softmax LogSoftmax=log_softmax Flatten=flatten GELU=gelu SiLU=silu
    LeakyReLU=leaky_relu ELU=elu ReLU6=relu6 Softplus=softplus
    """
)
