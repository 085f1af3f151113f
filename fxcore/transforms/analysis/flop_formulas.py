"""Formulas for the floating-point operations of an operator, from the shapes of its arguments and its result.

A multiplication and the addition of its product are two operations. The bias of a linear layer or a convolution is
free. Every other operator does a fixed number of operations for each element. These formulas change only with a release
of this project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

import torch

from fxcore.transforms.analysis.values import OperatorCall, TensorSpec, tensors_in

Formula = Callable[[OperatorCall], int]

# Operators with one operation for each element of the result, with three, and with 0.
_ONE = """\
abs acos acosh add addscalar and asin asinh atan atan2 atanh bitwiseand bitwisenot bitwiseor bitwisexor ceil celu
clamp clampmax clampmin copysign cos cosh deg2rad dequantize digamma div elu eq erf erfc erfinv exp exp2 expm1
fakequantizeperchannelaffine fakequantizepertensoraffine floor floordivide fmax fmin fmod frac ge gelu gelubackward
glu gt hardshrink hardsigmoid hardswish hardtanh heaviside hypot isclose isfinite isinf isnan ldexp le lshift leakyrelu
lgamma log log10 log1p log2 logaddexp logicaland logicalnot logicalor logicalxor logit logsigmoid logsigmoidforward lt
maximum minimum mish mul nantonum ne neg nextafter outer polar pow prelu prelukernel quantizeperchannel
quantizepertensor rad2deg reciprocal relu relu6 relubackward remainder round rrelu rshift rsqrt rsub selu sgn sigmoid
sigmoidbackward sign silu silubackward sin sinc sinh softplus softshrink softsign sqrt square sub tan tanh
tanhbackward tanhshrink threshold thresholdbackward trunc xlogy"""
_THREE = "addcdiv addcmul lerp"
_NOTHING = """\
alias alphadropout arange argsort assertasync assertscalar asserttensormetadata asstrided bernoulli bincount bool
broadcasttensors broadcastto cat channelshuffle chunk clone col2im columnstack constantpad1d constantpad2d
constantpad3d constantpadnd constrainrange contiguous convertelementtype copy cpu cuda detach device diag diagembed
diagonal dim double dropout dsplit dstack dtype embedding empty emptylike emptystrided expand expandas eye
featurealphadropout featuredropout fill flatten flip fliplr flipud float fold full fulllike gather getattr getitem
half hsplit hstack identity im2col index indexcopy indexfill indexput indexselect int iscontiguous isfloatingpoint
issamesize item len liftfresh liftfreshcopy linspace localscalardense long maskedfill maskedscatter maskedselect
meshgrid moveaxis movedim multinomial narrow narrowcopy nativedropout ndimension newempty newemptystrided newfull
newones newtensor newzeros nonzero nonzerostatic normal numel onehot ones oneslike pad permute pos pixelshuffle
pixelunshuffle rand randint randlike randn randnlike randperm range ravel reflectionpad1d reflectionpad2d
reflectionpad3d repeat repeatinterleave replicationpad1d replicationpad2d replicationpad3d reshape reshapeas resize
resolveconj resolveneg roll rot90 scalartensor scatter searchsorted select selectcopy selectscatter setitem shape size
slice slicecopy sliceinverse slicescatter sort split splitwithsizes squeeze stack stride swapaxes swapdims
symconstrainrange symconstrainrangeforsize symnumel symsize symstride t take takealongdim tensor tensorsplit tile to
toallocated tocopy tolist topk transpose tril trilindices triu triuindices type typeas unbind unflatten unfold
unsafechunk unsafesplit unsafesplitwithsizes unsafeview unsqueeze upsamplenearest1d upsamplenearest2d
upsamplenearest3d upsamplenearestexact1d view viewas viewascomplex viewasreal viewcopy vsplit vstack where zero
zeropad1d zeropad2d zeropad3d zeros zeroslike"""
# Operators with a fixed number of operations for each element of the argument.
_FOR_EACH_INPUT = {
    1: """\
adaptiveavgpool1d adaptiveavgpool2d adaptiveavgpool3d adaptivemaxpool1d adaptivemaxpool2d adaptivemaxpool3d all amax
amin aminmax any argmax argmin countnonzero cummax cummin cumprod cumsum indexadd indexreduce mean median nanmean nansum
prod scatteradd scatterreduce sum""",
    2: "linalgvectornorm logcumsumexp norm vectornorm",
    3: "huberloss l1loss logsumexp mseloss smoothl1loss std stdmean var varmean",
    4: "fusedrmsnorm normalize rmsnorm weightnorminterface",
    5: """\
binarycrossentropy groupnorm instancenorm layernorm logsoftmax nativegroupnorm nativelayernorm safesoftmax softmax
softmin""",
}
_BATCH_NORMS = ("batchnorm", "nativebatchnorm", "nativebatchnormlegit", "cudnnbatchnorm", "syncbatchnorm",
                "batchnormwithupdate", "nativebatchnormlegitnotraining", "batchnormnoupdate")  # fmt: skip
_WITH_BACKWARD = ("scaleddotproductflashattention", "scaleddotproductefficientattention", "flexattention",
                  "scaleddotproductcudnnattention", "scaleddotproductflashattentionforcpu")  # fmt: skip
_ATTENTION = ("scaleddotproductattention", "scaleddotproductfusedattentionoverrideable", *_WITH_BACKWARD,
              *(f"{name}backward" for name in _WITH_BACKWARD))  # fmt: skip
# The number of operations of each unit in a step, besides the products.
_RECURRENT = {"lstm": 9, "lstmcell": 9, "gru": 8, "grucell": 8, "rnn": 2, "rnncell": 2}
_UNFUSED_ATTENTION = ("flashattentionforward", "efficientattentionforward", "flashattentionbackward",
                      "efficientattentionbackward")  # fmt: skip


def operand(call: OperatorCall, position: int, *names: str) -> Any:
    """Return an argument by position or keyword, or the called module's attribute of that name, or None."""
    if position < len(call.args):
        return call.args[position]
    for name in names:
        if name in call.kwargs:
            return call.kwargs[name]
        found = getattr(call.module, name, None) if call.module is not None else None
        if isinstance(found, torch.Tensor):
            return TensorSpec(tuple(found.shape), tuple(found.stride()), found.dtype, -1, 0)
        if found is not None:
            return found
    return None


def _elements(value: Any) -> int:
    tensors = tensors_in(value)
    return tensors[0].numel if tensors else 0


def _input(call: OperatorCall) -> int:
    return _elements(operand(call, 0, "input", "self"))


def _each_result(count: int) -> Formula:
    return lambda call: count * _elements(call.result)


def _each_input(count: int) -> Formula:
    return lambda call: count * _input(call)


def _maximum(call: OperatorCall) -> int:
    """Return the count of `max` and `min`. They reduce one tensor or compare two."""
    other = operand(call, 1, "other")
    return _elements(call.result) if isinstance(other, TensorSpec) else _input(call)


def _product(position: int = 0, name: str = "input") -> Formula:
    """Return the formula of a product of matrices. The left matrix is the argument at `position`."""

    def formula(call: OperatorCall) -> int:
        matrix = operand(call, position, name)
        return int(2 * matrix.shape[-1] * _elements(call.result))

    return formula


def _summed_batches(call: OperatorCall) -> int:
    batches, _, inner = operand(call, 1, "batch1").shape
    return int(2 * batches * inner * _elements(call.result))


def _convolution(call: OperatorCall) -> int:
    has_flag = call.name in ("convolution", "convolutionoverrideable")
    is_transposed = operand(call, 6, "transposed") if has_flag else "transpose" in call.name
    weight = operand(call, 1, "weight")
    elements = _input(call) if is_transposed else _elements(call.result)
    return int(2 * elements * prod(weight.shape[1:]))


def _convolution_backward(call: OperatorCall) -> int:
    gradient, given, weight = (operand(call, place) for place in range(3))
    is_transposed, mask = operand(call, 7, "transposed"), operand(call, 10, "output_mask")
    positions = prod((given if is_transposed else gradient).shape[2:])
    # The gradients of input and weight are a product of the same size each.
    return int(2 * prod(weight.shape) * given.shape[0] * positions * sum(map(bool, mask[:2])))


def _attention(call: OperatorCall) -> int:
    is_gradient = call.name.endswith("backward")
    first = int(is_gradient and not call.name.startswith("flex"))
    names = ("query", "key", "value")
    query, key, value = (operand(call, first + place, name).shape for place, name in enumerate(names))
    # Length and heads have the other order in the operators that are not fused.
    pairs = prod(query[:-1]) * key[-3 if call.name in _UNFUSED_ATTENTION else -2]
    # The backward computes the scores again, and each of the two products has two gradients.
    with_scores, with_values = (3, 2) if is_gradient else (1, 1)
    return int(2 * pairs * (with_scores * query[-1] + with_values * value[-1]))


def _batch_norm(call: OperatorCall) -> int:
    if call.module is not None:
        is_training = call.module.training or getattr(call.module, "running_mean", None) is None
    elif call.name.endswith("notraining") or call.name.endswith("noupdate"):
        is_training = False
    else:
        is_training = operand(call, 5, "training", "train") is True
    return (5 if is_training else 2) * _input(call)


def _pooling(call: OperatorCall) -> int:
    size = operand(call, 1, "kernel_size")
    dimensions = int(call.name.partition("pool")[2][:1] or 1)
    sizes = list(size) if isinstance(size, (tuple, list)) else [size]
    return int(_elements(call.result) * (prod(sizes) if len(sizes) > 1 else sizes[0] ** dimensions))


def _interpolation(call: OperatorCall) -> int:
    name = "" if call.name in ("interpolate", "upsample") else call.name
    mode = name or str(operand(call, 3, "mode") or "nearest")
    dimensions = len(tensors_in(call.result)[0].shape) - 2
    if "nearest" in mode:
        return 0
    taps = 4 if "cubic" in mode else 2
    return int(2 * taps**dimensions * _elements(call.result))


def _recurrent(gates: int) -> Formula:
    def formula(call: OperatorCall) -> int:
        module: Any = call.module
        steps = prod(tensors_in(call.args)[0].shape[:-1])
        products = sum(weight.numel() for name, weight in module.named_parameters() if name.startswith("weight"))
        return int(2 * steps * products + gates * steps * module.hidden_size)

    return formula


def _recurrent_layer(call: OperatorCall) -> int:
    steps, *weights = [each.shape for each in call.args[:3]]
    return int(2 * prod(steps[:-1]) * sum(map(prod, weights)))


def _summed_rows(call: OperatorCall) -> int:
    """Return the count of sums of rows of a table: each row that is picked is added once."""
    indices = [spec for spec in tensors_in(call.args) if not spec.dtype.is_floating_point]
    return int(indices[0].numel * tensors_in(call.result)[0].shape[-1]) if indices else 0


def _multihead_attention(call: OperatorCall) -> int:
    """Return the count of the four projections and the two products of nn.MultiheadAttention."""
    module: Any = call.module
    query, key = (operand(call, place, name).shape for place, name in enumerate(("query", "key")))
    width, sequence = module.embed_dim, -2 if module.batch_first or len(query) == 2 else 0
    length = key[sequence]
    projections = prod(query[:-1]) * width * width * 2 + prod(key[:-1]) * width * (module.kdim + module.vdim)
    return int(2 * projections + 4 * prod(query[:-1]) * length * width)


def _table() -> dict[str, Formula]:
    table: dict[str, Formula] = {}

    def enter(names: str | Iterable[str], formula: Formula) -> None:
        table.update(dict.fromkeys(names.split() if isinstance(names, str) else names, formula))

    enter(_NOTHING, lambda call: 0)
    enter(_ONE, _each_result(1))
    enter(_THREE, _each_result(3))
    for count, names in _FOR_EACH_INPUT.items():
        enter(names, _each_input(count))
    enter("max min", _maximum)
    enter(_BATCH_NORMS, _batch_norm)
    enter("mm bmm matmul linear mv dot vdot inner intmm scaledmm chainmatmul2", _product())
    enter("addmm baddbmm addmv", _product(1, "mat1"))
    table["baddbmm"] = _product(1, "batch1")
    table["addmv"] = _product(1, "mat")
    enter("addbmm", _summed_batches)
    enter(["bilinear"], lambda call: int(2 * _elements(call.result) * prod(operand(call, 2, "weight").shape[1:])))
    enter("conv1d conv2d conv3d convtranspose1d convtranspose2d convtranspose3d", _convolution)
    enter("convolution cudnnconvolution convolutionoverrideable slowconv2dforward mkldnnconvolution", _convolution)
    enter(["convolutionbackward"], _convolution_backward)
    enter((*_ATTENTION, *_UNFUSED_ATTENTION), _attention)
    enter(["multiheadattention"], _multihead_attention)
    for dimension in "123":
        enter([f"maxpool{dimension}d", f"avgpool{dimension}d", f"maxpool{dimension}dwithindices"], _pooling)
    enter(
        "interpolate upsample upsamplebilinear2d upsamplebicubic2d upsampletrilinear3d upsamplelinear1d", _interpolation
    )
    enter("upsamplingnearest2d", lambda call: 0)
    for name, gates in _RECURRENT.items():
        enter([name], _recurrent(gates))
    enter("nllloss nlllossforward nllloss2d nllloss2dforward", lambda call: _elements(operand(call, 1, "target")))
    enter("embeddingbag embeddingbagforwardonly", _summed_rows)
    enter(["mkldnnrnnlayer"], _recurrent_layer)
    return table


FORMULAS = _table()
# Operators of torch.distributed: they exchange tensors. The reduction inside of a collective is not counted.
_EXCHANGES = ("c10d.", "_c10d_functional.", "_c10d_functional_autograd.", "_dtensor.")


def flops_of_call(call: OperatorCall) -> int | None:
    """Return the number of floating-point operations of a call, or None without a formula for its operator.

    A call without a tensor as its result, such as a size, has 0 operations.
    """
    formula = FORMULAS.get(call.name)
    if formula is None and call.name.startswith(_EXCHANGES):
        return 0
    if formula is None or (call.name in _RECURRENT and call.module is None):
        return None if tensors_in(call.result) else 0
    return formula(call)
