"""Tables: what is known about operators by name. Whatever is missing here is taken to alias what it is given."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What makes a random operator deterministic: position and keywords of an argument, and its default.
WHEN = {
    "dropout": (2, ("training", "train"), True),
    "dropout1d": (2, ("training",), True),
    "dropout2d": (2, ("training",), True),
    "dropout3d": (2, ("training",), True),
    "native_dropout": (2, ("train",), True),
    "feature_dropout": (2, ("train",), True),
    "alpha_dropout": (2, ("training", "train"), False),
    "feature_alpha_dropout": (2, ("training", "train"), False),
    "dropout_": (2, ("train",), True),
    "feature_dropout_": (2, ("train",), True),
    "alpha_dropout_": (2, ("train",), True),
    "feature_alpha_dropout_": (2, ("train",), True),
    "rrelu": (3, ("training",), False),
    "rrelu_": (3, ("training",), False),
    "scaled_dot_product_attention": (4, ("dropout_p",), 0.0),
    "multi_head_attention_forward": (10, ("dropout_p",), 0.0),
}

RANDOM = frozenset(WHEN) | _words(
    """
    rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial poisson binomial
    gumbel_softmax fractional_max_pool2d fractional_max_pool3d fractional_max_pool2d_with_indices
    fractional_max_pool3d_with_indices normal_ uniform_ random_ bernoulli_ exponential_ geometric_ cauchy_ log_normal_
    trunc_normal_ xavier_uniform_ xavier_normal_ kaiming_uniform_ kaiming_normal_ orthogonal_ sparse_
    manual_seed seed set_rng_state
    """
)

SIDE_EFFECTS = _words(
    """
    builtins.print builtins.input builtins.open builtins.exec builtins.eval warnings.warn
    torch._assert torch._assert_async torch._assert_scalar torch._assert_tensor_metadata torch._check
    torch._check_is_size torch._check_index torch._check_value torch._check_type torch._check_not_implemented
    torch._check_tensor_all aten._assert_async.default aten._assert_async.msg aten._assert_scalar.default
    aten._print.default
    aten._assert_tensor_metadata.default aten.sym_constrain_range.default aten.sym_constrain_range_for_size.default
    """
)

# Change how everything after them computes: written down as a write that all later nodes read.
AMBIENT = _words(
    """
    _set_grad_enabled set_grad_enabled inference_mode _enter_inference_mode _exit_inference_mode _enter_autocast
    _exit_autocast set_autocast_enabled set_autocast_dtype set_default_dtype set_default_device
    use_deterministic_algorithms set_flush_denormal
    """
)

# Methods of lists, dicts, sets and tensors that change the object, beside those that end with an underscore.
MUTATING_METHODS = _words(
    """
    append extend insert pop popitem remove clear reverse update setdefault discard __setitem__ __delitem__
    __iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __imod__ __ipow__ __imatmul__ __iand__ __ior__ __ixor__
    __ilshift__ __irshift__
    """
)

MUTATING_FUNCTIONS = _words(
    """
    operator.setitem operator.delitem operator.iadd operator.isub operator.imul operator.itruediv operator.ifloordiv
    operator.imod operator.ipow operator.imatmul operator.iand operator.ior operator.ixor operator.ilshift
    operator.irshift operator.iconcat builtins.setattr builtins.delattr builtins.next
    """
)

# Arguments that are written when another one is true: position and keyword of the first.
STATISTICS_UPDATED_WHEN = {
    "batch_norm": (((1, "running_mean"), (2, "running_var")), (5, ("training",), False)),
    "native_batch_norm": (((3, "running_mean"), (4, "running_var")), (5, ("training",), False)),
    "instance_norm": (((1, "running_mean"), (2, "running_var")), (5, ("use_input_stats",), True)),
}

FRESH_OPERATORS = _words(
    """
    add sub mul truediv floordiv mod pow matmul neg invert inv abs lshift rshift and_ or_ xor eq ne lt le gt ge not_
    truth is_ is_not contains index countOf indexOf length_hint
    """
)

FRESH_BUILTINS = _words("len int float bool complex str isinstance issubclass range hash id repr type abs")

# Functions and methods of tensors whose result never shares storage with what they are given.
FRESH = _words(
    """
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr all allclose amax amin aminmax angle any arange
    arccos arcsin arctan argmax argmin argsort asin asinh atan atan2 atanh avg_pool1d avg_pool2d avg_pool3d baddbmm
    bartlett_window batch_norm bernoulli bilinear bincount bitwise_and bitwise_not bitwise_or bitwise_xor bmm bucketize
    cat cdist ceil celu channel_shuffle cholesky clamp clamp_max clamp_min clip clone complex concat concatenate
    constant_pad_nd conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d copysign cos cosh
    cosine_embedding_loss cosine_similarity count_nonzero cov cross cross_entropy ctc_loss cummax cummin cumprod cumsum
    data_ptr deg2rad det diag_embed diff digamma dim dist div divide dot dstack element_size elu embedding
    embedding_bag empty empty_like eq equal erf erfc erfinv exp exp2 expm1 eye fft flip fliplr flipud floor
    floor_divide fmax fmin fmod frac full full_like gather gcd ge gelu get_device glu greater greater_equal group_norm
    grid_sample gt gumbel_softmax hann_window hardsigmoid hardswish hardtanh heaviside histc hstack huber_loss hypot
    index_add index_copy index_fill index_put index_select instance_norm interpolate inverse is_complex is_contiguous
    is_floating_point isclose isfinite isin isinf isnan item kl_div kron kthvalue l1_loss layer_norm ldexp le leaky_relu
    lerp less less_equal lgamma linear linspace local_response_norm log log10 log1p log2 log_softmax logaddexp
    logaddexp2 logical_and logical_not logical_or logical_xor logit logsigmoid logspace logsumexp lt masked_fill
    masked_scatter masked_select matmul max max_pool1d max_pool2d max_pool3d maximum mean median min minimum mish mm
    mode mse_loss mul multinomial multiply mv nan_to_num nanmean nansum ndimension ne neg negative new_empty new_full
    new_ones new_tensor new_zeros nextafter nll_loss nonzero norm normalize not_equal numel one_hot ones ones_like
    outer pairwise_distance poisson polar pow prelu prod quantile rad2deg rand rand_like randint randn
    randn_like randperm reciprocal relu relu6 remainder renorm repeat repeat_interleave rms_norm roll rot90 round rsqrt
    rsub scalar_tensor scaled_dot_product_attention scatter scatter_add scatter_reduce searchsorted selu sgn sigmoid
    sign signbit silu sin sinc sinh size smooth_l1_loss softmax softmin softplus softshrink softsign sort sqrt square
    stack std std_mean storage_offset stride sub subtract sum take take_along_dim tan tanh tanhshrink tensor
    tensordot threshold tile tolist topk trace triangular_solve tril triu true_divide trunc unfold_copy unique
    unique_consecutive upsample var var_mean vstack where xlogy zeros zeros_like
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
    adaptive_max_pool3d binary_cross_entropy binary_cross_entropy_with_logits triplet_margin_loss
    """
)

# Attributes of a tensor that are no view of it.
FRESH_ATTRIBUTES = _words("shape dtype device ndim layout requires_grad is_cuda itemsize nbytes names")

# Modules of torch.nn whose result never shares storage with what they are given, unless they work in place.
FRESH_MODULES = _words(
    """
    Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Linear Bilinear Embedding EmbeddingBag
    BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm GroupNorm
    RMSNorm LocalResponseNorm CrossMapLRN2d ReLU ReLU6 LeakyReLU PReLU RReLU ELU CELU SELU GELU SiLU Mish Sigmoid Tanh
    Hardtanh Hardsigmoid Hardswish Softplus Softsign Softshrink Hardshrink Tanhshrink LogSigmoid GLU Threshold Softmax
    LogSoftmax Softmin Softmax2d MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d
    AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d
    Upsample UpsamplingNearest2d UpsamplingBilinear2d CosineSimilarity PairwiseDistance L1Loss MSELoss
    CrossEntropyLoss NLLLoss KLDivLoss BCELoss BCEWithLogitsLoss SmoothL1Loss HuberLoss
    """
)
