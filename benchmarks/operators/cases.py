"""The operators and blocks of the survey, each as a network with an example input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.models._blocks import Residual

_IMAGE, _ROW, _TOKENS, _STEPS, _HEADS = (1, 8, 8, 8), (1, 8, 16), (1, 16, 8), (1, 4, 8), (1, 2, 16, 4)


class Between(nn.Module):
    """An operator between two layers, so that its operands are results of the NPU, and a layer of the NPU reads it.

    before: a layer per operand; after: one, if the result is a tensor of floats that a layer can read.
    """

    def __init__(self, operator: Callable[..., Any], shape: tuple[int, ...], operands: int) -> None:
        super().__init__()
        self.operator = operator
        self.before = nn.ModuleList(_layer(shape) for _ in range(operands))
        with torch.no_grad():
            result = self.eval()._operated(torch.randn(shape))
        self.after = _layer(tuple(result.shape)) if result.is_floating_point() else nn.Identity()

    def _operated(self, x: Tensor) -> Any:
        return self.operator(*(layer(x) for layer in self.before))

    def forward(self, x: Tensor) -> Any:
        return self.after(self._operated(x))


def _layer(shape: tuple[int, ...]) -> nn.Module:
    """Returns a layer that keeps a shape: a convolution of images and volumes, else a Linear of the last axis."""
    if len(shape) in (2, 3):
        return nn.Linear(shape[-1], shape[-1])
    convolution = {4: nn.Conv2d, 5: nn.Conv3d}.get(len(shape))
    return convolution(shape[1], shape[1], 1) if convolution else nn.Identity()


@dataclass(frozen=True)
class Case:
    """An operator or a block.

    make: returns it, a module or a function.
    shape: of its operands, and of the network's input.
    operands: how many it has.
    """

    make: Callable[[], Callable[..., Any]]
    shape: tuple[int, ...] = _IMAGE
    operands: int = 1

    def network(self) -> tuple[nn.Module, tuple[Tensor, ...]]:
        """Returns the network and its example input, with weights that a seed determines."""
        torch.manual_seed(0)
        return Between(self.make(), self.shape, self.operands).eval(), (torch.randn(self.shape),)


def _of(function: Callable[..., Any], shape: tuple[int, ...] = _IMAGE, operands: int = 1) -> Case:
    """Returns the case of a function."""
    return Case(lambda: function, shape, operands)


def _functions(names: str, operands: int = 1) -> dict[str, Case]:
    """Returns the cases of functions of torch, on images."""
    return {name: _of(getattr(torch, name), operands=operands) for name in names.split()}


def _layers(names: str, *arguments: Any) -> dict[str, Case]:
    """Returns the cases of layers of torch.nn with equal arguments, on images."""
    return {f"nn.{name}": Case(partial(getattr(nn, name), *arguments)) for name in names.split()}


# ---- blocks as timm has them ----------------------------------------------------------------------


class Block(nn.Module):
    """Layers, parameters and buffers by name, and what is computed from them and an input."""

    def __init__(self, compute: Callable[[Any, Tensor], Tensor], **parts: nn.Module | Tensor) -> None:
        super().__init__()
        self.compute = compute
        for name, part in parts.items():
            if isinstance(part, (nn.Module, nn.Parameter)):
                setattr(self, name, part)
            else:
                self.register_buffer(name, part)

    def forward(self, x: Tensor) -> Tensor:
        return self.compute(self, x)


def _convolutions(**channels: tuple[int, int]) -> dict[str, nn.Module]:
    """Returns 1x1 convolutions by name."""
    return {name: nn.Conv2d(*pair, 1) for name, pair in channels.items()}


def _gated(gate: Callable[[Tensor], Tensor], act: Callable[[Tensor], Tensor] = F.relu) -> Block:
    """Squeeze and excite: channels times a gate of their means (timm SEModule)."""
    return Block(
        lambda m, x: x * gate(m.expand(act(m.reduce(x.mean((2, 3), keepdim=True))))),
        **_convolutions(reduce=(8, 4), expand=(4, 8)),
    )


def _efficiently_gated() -> Block:
    """A gate by a convolution over the channels (timm EcaModule)."""
    return Block(
        lambda m, x: x * m.conv(x.mean((2, 3)).unsqueeze(1)).sigmoid().view(1, -1, 1, 1),
        conv=nn.Conv1d(1, 1, 3, padding=1, bias=False),
    )


def _spatially_gated() -> Block:
    """A gate by the mean and the maximum over channels (timm SpatialAttn of CBAM)."""
    return Block(
        lambda m, x: x * m.conv(torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)).sigmoid(),
        conv=nn.Conv2d(2, 1, 7, padding=3, bias=False),
    )


def _gated_by_coordinates() -> Block:
    """A gate by rows and one by columns (coordinate attention)."""

    def compute(m: Any, x: Tensor) -> Tensor:
        rows, columns = x.mean(3, keepdim=True), x.mean(2, keepdim=True).transpose(2, 3)
        both = F.hardswish(m.squeeze(torch.cat([rows, columns], 2)))
        of_rows, of_columns = both.split([8, 8], 2)
        return x * m.rows(of_rows).sigmoid() * m.columns(of_columns.transpose(2, 3)).sigmoid()

    return Block(compute, **_convolutions(squeeze=(8, 4), rows=(4, 8), columns=(4, 8)))


def _split() -> Block:
    """Two branches weighed by a softmax (timm SelectiveKernel, SplitAttn)."""

    def compute(m: Any, x: Tensor) -> Tensor:
        branches = torch.stack([m.a(x), m.b(x)], 1)
        weights = m.expand(branches.sum(1).mean((2, 3), keepdim=True)).view(1, 2, 8, 1, 1).softmax(1)
        return (branches * weights).sum(1)

    branches = {"a": nn.Conv2d(8, 8, 3, padding=1), "b": nn.Conv2d(8, 8, 3, padding=2, dilation=2)}
    return Block(compute, **branches, expand=nn.Conv2d(8, 16, 1))


def _ghost() -> Block:
    """Half of the channels from the other half, by a depthwise convolution (GhostNet)."""

    def compute(m: Any, x: Tensor) -> Tensor:
        x1 = F.relu(m.primary(x))
        return torch.cat([x1, F.relu(m.cheap(x1))], 1)

    return Block(compute, primary=nn.Conv2d(8, 4, 1), cheap=nn.Conv2d(4, 4, 3, padding=1, groups=4))


def _conv_next(response: bool = False) -> Block:
    """Depthwise convolution, a norm over channels, two layers with GELU, a scale, a residual (timm ConvNeXtBlock)."""

    def compute(m: Any, x: Tensor) -> Tensor:
        y = F.gelu(m.up(m.norm(m.conv(x).permute(0, 2, 3, 1))))
        if response:  # GlobalResponseNorm of ConvNeXt V2
            g = y.pow(2).sum((1, 2), keepdim=True).sqrt()
            y = y * (g / (g.mean(-1, keepdim=True) + 1e-6)) + y
        return x + (m.down(y) * m.gamma).permute(0, 3, 1, 2)

    layers = {"conv": nn.Conv2d(8, 8, 7, padding=3, groups=8), "norm": nn.LayerNorm(8)}
    gamma = nn.Parameter(torch.full((8,), 0.5))
    return Block(compute, **layers, up=nn.Linear(8, 16), down=nn.Linear(16, 8), gamma=gamma)


def _mixer() -> Block:
    """Mixing of tokens, then of channels (timm MixerBlock)."""

    def compute(m: Any, x: Tensor) -> Tensor:
        x = x + m.tokens(m.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + m.channels(x)

    norm, tokens = nn.LayerNorm(8), nn.Linear(16, 16)
    channels = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
    return Block(compute, norm=norm, tokens=tokens, channels=channels)


def _gated_mlp() -> Block:
    """Half of the channels times a mix of the tokens of the other half (timm SpatialGatingBlock)."""

    def compute(m: Any, x: Tensor) -> Tensor:
        u, v = F.gelu(m.up(x)).chunk(2, -1)
        return m.down(u * m.tokens(v.transpose(1, 2)).transpose(1, 2))

    return Block(compute, up=nn.Linear(8, 16), tokens=nn.Linear(16, 16), down=nn.Linear(8, 8))


class Attention(nn.Module):
    """Attention over tokens, as a block of a ViT writes it.

    kind: what is done beside: nothing, a causal mask, a bias per pair, rotary positions, L2 norms (XCiT),
    a pooling of keys and values (PVT), or ReLU in place of the softmax (EfficientViT).
    """

    def __init__(self, kind: str = "") -> None:
        super().__init__()
        self.kind, self.qkv, self.out = kind, nn.Linear(8, 24), nn.Linear(8, 8)
        self.bias = nn.Parameter(torch.randn(2, 16, 16))
        self.reduce = nn.Conv2d(8, 8, 2, 2)
        angles = torch.arange(16)[:, None] / 100.0 ** (torch.arange(2)[None] / 2)
        self.register_buffer("cos", angles.cos().repeat(1, 2))
        self.register_buffer("sin", angles.sin().repeat(1, 2))

    def _rotated(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(1, 16, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        if self.kind == "rotary":
            q, k = self._rotated(q), self._rotated(k)
        if self.kind == "pooled":
            small = self.reduce(x.transpose(1, 2).reshape(1, 8, 4, 4)).flatten(2).transpose(1, 2)
            k, v = self.qkv(small).view(1, 4, 3, 2, 4).permute(2, 0, 3, 1, 4)[1:].unbind(0)
        if self.kind == "across channels":
            q, k, v = (y.transpose(-2, -1) for y in (F.normalize(q, dim=-2), F.normalize(k, dim=-2), v))
        if self.kind == "linear":
            q, k = F.relu(q), F.relu(k)
            y = (q @ (k.transpose(-2, -1) @ v)) / (q @ k.sum(-2, keepdim=True).transpose(-2, -1) + 1e-3)
        else:
            scores = q @ k.transpose(-2, -1) * 0.5
            if self.kind == "biased":
                scores = scores + self.bias
            if self.kind == "causal":
                scores = scores.masked_fill(torch.ones(16, 16, dtype=torch.bool).triu(1), float("-inf"))
            y = scores.softmax(-1) @ v
        if self.kind == "across channels":
            y = y.transpose(-2, -1)
        return self.out(y.transpose(1, 2).reshape(1, 16, 8))


def _windowed() -> Block:
    """Shifted windows and back (timm SwinTransformerBlock)."""

    def compute(m: Any, x: Tensor) -> Tensor:
        x = torch.roll(x.permute(0, 2, 3, 1), (-2, -2), (1, 2))
        x = x.view(1, 2, 4, 2, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(4, 16, 8)
        x = m.layer(x).view(1, 2, 2, 4, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(1, 8, 8, 8)
        return torch.roll(x, (2, 2), (1, 2)).permute(0, 3, 1, 2)

    return Block(compute, layer=nn.Linear(8, 8))


def _tokens_of_class() -> Block:
    """Patches as tokens, with a token of the class and positions (timm VisionTransformer)."""

    def compute(m: Any, x: Tensor) -> Tensor:
        x = m.patches(x).flatten(2).transpose(1, 2)
        return torch.cat([m.token.expand(1, -1, -1), x], 1) + m.positions

    patches, token = nn.Conv2d(8, 8, 2, 2), nn.Parameter(torch.randn(1, 1, 8))
    return Block(compute, patches=patches, token=token, positions=nn.Parameter(torch.randn(1, 17, 8)))


def _unfolded() -> Block:
    """Pixels of equal places in patches as sequences, and back (MobileViT)."""

    def compute(m: Any, x: Tensor) -> Tensor:
        x = x.reshape(1, 8, 4, 2, 4, 2).permute(0, 3, 5, 2, 4, 1).reshape(4, 16, 8)
        return m.layer(x).reshape(1, 2, 2, 4, 4, 8).permute(0, 5, 3, 1, 4, 2).reshape(1, 8, 8, 8)

    return Block(compute, layer=nn.Linear(8, 8))


def _pyramid(*sizes: int) -> Block:
    """Means over grids of several sizes beside the image (PSPNet, DeepLab)."""

    def compute(m: Any, x: Tensor) -> Tensor:
        pooled = (layer(F.adaptive_avg_pool2d(x, s)) for s, layer in zip(sizes, m.layers))
        return torch.cat([x, *(F.interpolate(p, (8, 8), mode="bilinear") for p in pooled)], 1)

    return Block(compute, layers=nn.ModuleList(nn.Conv2d(8, 4, 1) for _ in sizes))


def _pooled_thrice(x: Tensor) -> Tensor:
    """Three poolings in a row beside their input (SPPF of YOLO)."""
    a = F.max_pool2d(x, 5, 1, 2)
    b = F.max_pool2d(a, 5, 1, 2)
    return torch.cat([x, a, b, F.max_pool2d(b, 5, 1, 2)], 1)


def _fused() -> Block:
    """A fine and a coarse image added (FPN, HRNet)."""
    return Block(
        lambda m, x: m.fine(x) + F.interpolate(m.coarse(x), scale_factor=2.0, mode="nearest"),
        coarse=nn.Conv2d(8, 8, 3, 2, 1),
        fine=nn.Conv2d(8, 8, 1),
    )


def _star() -> Block:
    """The product of two branches, one through ReLU6 (StarNet)."""
    layers = _convolutions(a=(8, 16), b=(8, 16), out=(16, 8))
    return Block(lambda m, x: x + m.out(F.relu6(m.a(x)) * m.b(x)), **layers)


class Standardized(nn.Conv2d):
    """A convolution whose weights are normalized in every inference (timm StdConv2d)."""

    def forward(self, x: Tensor) -> Tensor:
        w = F.batch_norm(self.weight.reshape(1, 8, -1), None, None, training=True, eps=1e-6).reshape_as(self.weight)
        return F.conv2d(x, w, self.bias, self.stride, self.padding)


def _blurred() -> Block:
    """A fixed low-pass filter with a stride, padded by reflection (timm BlurPool2d)."""
    row = torch.tensor([1.0, 2.0, 1.0]) / 4
    return Block(
        lambda m, x: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), m.filter, stride=2, groups=8),
        filter=(row[:, None] * row[None, :]).expand(8, 1, 3, 3).contiguous(),
    )


def _first(module: nn.Module, repeat: int = 1) -> Block:
    """The first of what a module returns for so many times its input."""
    return Block(lambda m, x: m.module(*[x] * repeat)[0], module=module)


def _unrolled(cell: nn.Module) -> Block:
    """A recurrent cell over the steps of a sequence, from a state of zeros."""

    def compute(m: Any, x: Tensor) -> Tensor:
        state: Any = None
        for step in x[:, :3].unbind(1):
            state = m.cell(step, state)
        return state[0] if isinstance(state, tuple) else state

    return Block(compute, cell=cell)


#: Cases by group and name.
CASES: dict[str, dict[str, Case]] = {
    "Activations": {
        **_layers("ReLU ReLU6 LeakyReLU"),
        **_layers("PReLU", 8),
        **_layers("RReLU ELU CELU SELU GELU"),
        "nn.GELU(tanh)": Case(lambda: nn.GELU("tanh")),
        **_layers("SiLU Mish Softplus Softsign Softshrink Hardshrink Tanhshrink"),
        **_layers("Threshold", 0.1, 0.2),
        **_layers("Hardtanh Hardsigmoid Hardswish Sigmoid LogSigmoid Tanh"),
        **_layers("GLU Softmax Softmin LogSoftmax", 1),
        "h-swish by hand: x * relu6(x + 3) / 6": _of(lambda x: x * F.relu6(x + 3) / 6),
        "x * sigmoid(1.702 * x)": _of(lambda x: x * torch.sigmoid(1.702 * x)),
        "squared ReLU": _of(lambda x: F.relu(x).square()),
    },
    "Pointwise functions": {
        **_functions("abs exp"),
        "log(|x| + 1)": _of(lambda x: (x.abs() + 1).log()),
        "sqrt(|x|)": _of(lambda x: x.abs().sqrt()),
        "rsqrt(|x| + 1)": _of(lambda x: (x.abs() + 1).rsqrt()),
        "1 / (|x| + 1)": _of(lambda x: 1 / (x.abs() + 1)),
        **_functions("sin atan erf floor round frac sign"),
        "clamp(-.5, .5)": _of(lambda x: x.clamp(-0.5, 0.5)),
        "x ** 3": _of(lambda x: x**3),
        "where(x > 0, x, 0.1)": _of(lambda x: torch.where(x > 0, x, 0.1)),
        "masked_fill(x < 0, 0)": _of(lambda x: x.masked_fill(x < 0, 0.0)),
        "quantize by rounding: round(4 * x) / 4": _of(lambda x: torch.round(4 * x) / 4),
    },
    "Operators of two tensors": {
        **_functions("add sub mul", operands=2),
        "div by |x| + 1": _of(lambda x, y: x / (y.abs() + 1), operands=2),
        **_functions("maximum minimum", operands=2),
        "lerp": _of(lambda x, y: torch.lerp(x, y, 0.25), operands=2),
        "lerp as x + (y - x) / 4": _of(lambda x, y: x + (y - x) * 0.25, operands=2),
        "addcmul": _of(torch.addcmul, operands=3),
        "addcmul as x + y * z": _of(lambda x, y, z: x + y * z, operands=3),
        "where(x > y, x, y)": _of(lambda x, y: torch.where(x > y, x, y), operands=2),
        **_functions("hypot atan2", operands=2),
        "hypot as sqrt(x * x + y * y)": _of(lambda x, y: (x * x + y * y).sqrt(), operands=2),
        "matmul": _of(lambda x, y: x @ y.transpose(1, 2), _TOKENS, 2),
        "einsum bij,bkj->bik": _of(lambda x, y: torch.einsum("bij,bkj->bik", x, y), _TOKENS, 2),
        "cosine_similarity": _of(F.cosine_similarity, operands=2),
        "cdist": _of(torch.cdist, _TOKENS, 2),
        "nn.Bilinear": Case(lambda: nn.Bilinear(8, 8, 8), (1, 8), 2),
    },
    "Convolutions and layers": {
        "nn.Conv1d": Case(lambda: nn.Conv1d(8, 8, 3, padding=1), _ROW),
        "nn.Conv1d, stride 4, padding 2": Case(lambda: nn.Conv1d(8, 8, 8, 4, 2), _ROW),
        "nn.Conv2d": Case(lambda: nn.Conv2d(8, 8, 3, padding=1)),
        "nn.Conv2d, depthwise": Case(lambda: nn.Conv2d(8, 8, 3, padding=1, groups=8)),
        "nn.Conv2d, 2 groups": Case(lambda: nn.Conv2d(8, 8, 3, padding=1, groups=2)),
        "nn.Conv2d, dilated by 2": Case(lambda: nn.Conv2d(8, 8, 3, padding=2, dilation=2)),
        "nn.Conv2d, stride 4, padding 3": Case(lambda: nn.Conv2d(8, 8, 7, 4, 3), (1, 8, 16, 16)),
        "nn.Conv2d, stride 4": Case(lambda: nn.Conv2d(8, 8, 4, 4)),
        "nn.Conv2d, padded by reflection": Case(lambda: nn.Conv2d(8, 8, 3, padding=1, padding_mode="reflect")),
        "nn.Conv2d, padded by repetition": Case(lambda: nn.Conv2d(8, 8, 3, padding=1, padding_mode="replicate")),
        "nn.Conv2d, padded around": Case(lambda: nn.Conv2d(8, 8, 3, padding=1, padding_mode="circular")),
        "nn.Conv3d": Case(lambda: nn.Conv3d(4, 4, 3, padding=1), (1, 4, 4, 4, 4)),
        "nn.ConvTranspose1d": Case(lambda: nn.ConvTranspose1d(8, 8, 2, 2), _ROW),
        "nn.ConvTranspose2d, 2x2, stride 2": Case(lambda: nn.ConvTranspose2d(8, 8, 2, 2)),
        "nn.ConvTranspose2d, 3x3, stride 2": Case(lambda: nn.ConvTranspose2d(8, 8, 3, 2, 1, 1)),
        "nn.ConvTranspose2d, depthwise": Case(lambda: nn.ConvTranspose2d(8, 8, 2, 2, groups=8)),
        "nn.ConvTranspose2d, stride 4": Case(lambda: nn.ConvTranspose2d(8, 8, 4, 4)),
        "nn.ConvTranspose2d, dilated by 2": Case(lambda: nn.ConvTranspose2d(8, 8, 3, 1, 2, dilation=2)),
        "nn.Linear": Case(lambda: nn.Linear(8, 16), _TOKENS),
        "nn.Embedding of argmax": Case(
            lambda: Block(lambda m, x: m.table(x.argmax(-1)), table=nn.Embedding(8, 8)), _TOKENS
        ),
        "weights standardized (StdConv2d)": Case(lambda: Standardized(8, 8, 3, padding=1)),
    },
    "Norms": {
        "nn.BatchNorm2d": Case(lambda: nn.BatchNorm2d(8)),
        "nn.BatchNorm2d before a ReLU": Case(lambda: nn.Sequential(nn.ReLU(), nn.BatchNorm2d(8), nn.ReLU())),
        "nn.BatchNorm1d": Case(lambda: nn.BatchNorm1d(8), _ROW),
        "nn.LayerNorm": Case(lambda: nn.LayerNorm(8), _TOKENS),
        "nn.GroupNorm": Case(lambda: nn.GroupNorm(2, 8)),
        "nn.InstanceNorm2d": Case(lambda: nn.InstanceNorm2d(8)),
        "nn.RMSNorm": Case(lambda: nn.RMSNorm(8), _TOKENS),
        "nn.LocalResponseNorm": Case(lambda: nn.LocalResponseNorm(3)),
        "F.normalize": _of(lambda x: F.normalize(x, dim=1)),
    },
    "Pooling and reductions": {
        "nn.MaxPool1d": Case(lambda: nn.MaxPool1d(2), _ROW),
        "nn.MaxPool2d": Case(lambda: nn.MaxPool2d(2)),
        "nn.MaxPool2d, 3x3, stride 2, padded": Case(lambda: nn.MaxPool2d(3, 2, 1)),
        "nn.MaxPool2d, rounded up": Case(lambda: nn.MaxPool2d(3, 2, ceil_mode=True)),
        "nn.MaxPool2d, dilated": Case(lambda: nn.MaxPool2d(2, 1, dilation=2)),
        "nn.MaxPool2d, stride 4": Case(lambda: nn.MaxPool2d(4)),
        "nn.AvgPool1d": Case(lambda: nn.AvgPool1d(2), _ROW),
        "nn.AvgPool2d": Case(lambda: nn.AvgPool2d(2)),
        "nn.AvgPool2d, padding not counted": Case(lambda: nn.AvgPool2d(3, 1, 1, count_include_pad=False)),
        "nn.AvgPool2d, stride 4": Case(lambda: nn.AvgPool2d(4)),
        "nn.AdaptiveAvgPool2d(1)": Case(lambda: nn.AdaptiveAvgPool2d(1)),
        "nn.AdaptiveAvgPool2d(3)": Case(lambda: nn.AdaptiveAvgPool2d(3)),
        "nn.AdaptiveMaxPool2d(3)": Case(lambda: nn.AdaptiveMaxPool2d(3)),
        "nn.AdaptiveMaxPool2d(1)": Case(lambda: nn.AdaptiveMaxPool2d(1)),
        "nn.LPPool2d": Case(lambda: nn.LPPool2d(2, 2)),
        "generalized mean (GeM)": _of(lambda x: x.clamp(min=1e-3).pow(3.0).mean((2, 3), keepdim=True).pow(1 / 3)),
        "mean over height and width": _of(lambda x: x.mean((2, 3), keepdim=True)),
        "mean over channels": _of(lambda x: x.mean(1, keepdim=True)),
        "sum over channels": _of(lambda x: x.sum(1, keepdim=True)),
        "amax over channels": _of(lambda x: x.amax(1, keepdim=True)),
        "max over channels, values": _of(lambda x: x.max(1, keepdim=True)[0]),
        "argmax over channels": _of(lambda x: x.argmax(1)),
        "argmax over channels, to INT32": _of(lambda x: x.argmax(1).to(torch.int32)),
        "argmin over channels": _of(lambda x: x.argmin(1)),
        "argmin as argmax(-x), to INT32": _of(lambda x: (-x).argmax(1).to(torch.int32)),
        "var": _of(lambda x: x.var((2, 3), keepdim=True)),
        "std": _of(lambda x: x.std((2, 3), keepdim=True)),
        "norm": _of(lambda x: torch.linalg.vector_norm(x, dim=1, keepdim=True)),
        "logsumexp": _of(lambda x: x.logsumexp(1, keepdim=True)),
        "prod": _of(lambda x: x.prod(1, keepdim=True)),
        "cumsum": _of(lambda x: x.cumsum(2)),
        "cumsum as a product with a triangle": _of(lambda x: x.flatten(2) @ torch.ones(64, 64).triu()),
        "topk": _of(lambda x: x.topk(2, 1)[0]),
        "sort": _of(lambda x: x.sort(1)[0]),
        "any(x > 1)": _of(lambda x: (x > 1).any(1)),
    },
    "Movement": {
        "cat": _of(lambda x, y: torch.cat([x, y], 1), operands=2),
        "stack": _of(lambda x, y: torch.stack([x, y], 1).flatten(1, 2), operands=2),
        "split": _of(lambda x: torch.cat(x.split(4, 1)[::-1], 1)),
        "flip of an image": _of(lambda x: x.flip(3)),
        "flip of a sequence": _of(lambda x: x.flip(1), _TOKENS),
        "flip of a sequence as an image": _of(lambda x: x.unsqueeze(-1).flip(1).squeeze(-1), _TOKENS),
        "roll": _of(lambda x: x.roll((1, 2), (2, 3))),
        "repeat": _of(lambda x: x.repeat(1, 2, 1, 1)),
        "repeat_interleave": _of(lambda x: x.repeat_interleave(2, 2)),
        "expand": _of(lambda x: x.mean(1, keepdim=True).expand(1, 8, 8, 8)),
        "x[:, :, ::2, ::2]": _of(lambda x: x[:, :, ::2, ::2]),
        "transpose": _of(lambda x: x.transpose(2, 3)),
        "rot90": _of(lambda x: x.rot90(1, (2, 3))),
        "index_select": _of(lambda x: x.index_select(1, torch.tensor([3, 1, 2]))),
        "gather": _of(lambda x: x.gather(1, torch.arange(64).view(1, 1, 8, 8) % 8)),
        "x[:, [3, 1, 2]]": _of(lambda x: x[:, [3, 1, 2]]),
        "x[:, [3, 1, 2]] as slices": _of(lambda x: torch.cat([x[:, k : k + 1] for k in (3, 1, 2)], 1)),
        **_functions("tril triu"),
        "triu as a product with a mask": _of(lambda x: x * torch.ones(8, 8).triu()),
        "diagonal": _of(lambda x: x.diagonal(0, 2, 3)),
        "nn.ZeroPad2d": Case(lambda: nn.ZeroPad2d(1)),
        "nn.ConstantPad2d(1)": Case(lambda: nn.ConstantPad2d(1, 1.0)),
        **_layers("ReflectionPad2d ReplicationPad2d CircularPad2d", 1),
        **_layers("PixelShuffle PixelUnshuffle", 2),
        "channel shuffle": _of(lambda x: x.view(1, 2, 4, 8, 8).transpose(1, 2).reshape(1, 8, 8, 8)),
        "nn.ChannelShuffle": Case(lambda: nn.ChannelShuffle(2)),
        "nn.Unfold": Case(lambda: nn.Unfold(2, stride=2)),
        "nn.Fold": Case(lambda: nn.Fold((8, 8), 2, stride=2), (1, 32, 16)),
        "Tensor.unfold": _of(lambda x: x.unfold(1, 4, 4).flatten(1, 2), _TOKENS),
    },
    "Resizing": {
        "nearest, twice": Case(lambda: nn.Upsample(scale_factor=2)),
        "nearest, to 12 x 12": Case(lambda: nn.Upsample((12, 12))),
        "bilinear, twice": Case(lambda: nn.Upsample(scale_factor=2, mode="bilinear")),
        "bilinear, twice, corners aligned": Case(
            lambda: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        ),
        "bilinear, to 12 x 12": Case(lambda: nn.Upsample((12, 12), mode="bilinear")),
        "bicubic, twice": Case(lambda: nn.Upsample(scale_factor=2, mode="bicubic")),
        "linear, twice, of a sequence": Case(lambda: nn.Upsample(scale_factor=2, mode="linear"), _ROW),
        "linear, twice, of a sequence as an image": _of(
            lambda x: F.interpolate(x.unsqueeze(2), scale_factor=(1.0, 2.0), mode="bilinear").squeeze(2), _ROW
        ),
        "nearest, twice, of a sequence": Case(lambda: nn.Upsample(scale_factor=2), _ROW),
        "grid_sample": _of(lambda x: F.grid_sample(x, torch.zeros(1, 4, 4, 2), align_corners=False)),
    },
    "Recurrent layers and attention": {
        "nn.LSTM": Case(lambda: _first(nn.LSTM(8, 8, batch_first=True)), _STEPS),
        "nn.LSTM, both directions": Case(lambda: _first(nn.LSTM(8, 4, batch_first=True, bidirectional=True)), _STEPS),
        "nn.GRU": Case(lambda: _first(nn.GRU(8, 8, batch_first=True)), _STEPS),
        "nn.RNN": Case(lambda: _first(nn.RNN(8, 8, batch_first=True)), _STEPS),
        "nn.LSTMCell": Case(lambda: _unrolled(nn.LSTMCell(8, 8)), _STEPS),
        "nn.GRUCell": Case(lambda: _unrolled(nn.GRUCell(8, 8)), _STEPS),
        "nn.MultiheadAttention": Case(lambda: _first(nn.MultiheadAttention(8, 2, batch_first=True), 3), _TOKENS),
        "nn.TransformerEncoderLayer": Case(lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), _TOKENS),
        "scaled_dot_product_attention": _of(F.scaled_dot_product_attention, _HEADS, 3),
        "scaled_dot_product_attention, causal": _of(partial(F.scaled_dot_product_attention, is_causal=True), _HEADS, 3),
        "attention of a ViT": Case(Attention, _TOKENS),
        **{
            f"attention, {kind}": Case(partial(Attention, kind), _TOKENS)
            for kind in ("causal", "biased", "rotary", "pooled", "across channels", "linear")
        },
        "torch.fft of tokens (FNet)": _of(lambda x: torch.fft.fft2(x).real, _TOKENS),
    },
    "Blocks as in timm": {
        "squeeze and excite": Case(partial(_gated, torch.sigmoid)),
        "squeeze and excite, hard": Case(partial(_gated, F.hardsigmoid)),
        "squeeze and excite, relu6(x + 3) / 6": Case(partial(_gated, lambda x: F.relu6(x + 3) / 6)),
        "squeeze and excite, SiLU": Case(partial(_gated, torch.sigmoid, F.silu)),
        "ECA": Case(_efficiently_gated),
        "CBAM, spatial": Case(_spatially_gated),
        "coordinate attention": Case(_gated_by_coordinates),
        "selective kernel": Case(_split),
        "Ghost module": Case(_ghost),
        "inverted residual, ReLU6": Case(
            lambda: Residual(
                nn.Conv2d(8, 16, 1), nn.ReLU6(), nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.ReLU6(), nn.Conv2d(16, 8, 1)
            )
        ),
        "inverted residual, Mish": Case(lambda: Residual(nn.Conv2d(8, 16, 1), nn.Mish(), nn.Conv2d(16, 8, 1))),
        "ConvNeXt": Case(_conv_next),
        "ConvNeXt V2": Case(partial(_conv_next, True)),
        "ConvMixer": Case(lambda: Residual(nn.Conv2d(8, 8, 5, padding=2, groups=8), nn.GELU(), nn.BatchNorm2d(8))),
        "PoolFormer's mixer": Case(lambda: Residual(nn.AvgPool2d(3, 1, 1, count_include_pad=False))),
        "MLP-Mixer": Case(_mixer, _TOKENS),
        "gMLP": Case(_gated_mlp, _TOKENS),
        "shifted windows (Swin)": Case(_windowed),
        "patches, class token, positions (ViT)": Case(_tokens_of_class),
        "patches that overlap, stride 4 (PVT v2)": Case(lambda: nn.Conv2d(8, 8, 7, 4, 3), (1, 8, 16, 16)),
        "unfolding of MobileViT": Case(_unfolded),
        "pyramid of means (PSPNet), 1 2 4": Case(partial(_pyramid, 1, 2, 4)),
        "pyramid of means (PSPNet), 1 2 3 6": Case(partial(_pyramid, 1, 2, 3, 6)),
        "SPPF (YOLO)": _of(_pooled_thrice),
        "FPN": Case(_fused),
        "StarNet": Case(_star),
        "BlurPool": Case(_blurred),
    },
}

#: Cases of an operator that stays on the CPU, and the case of what its remedy says (`eqsat/executorch/partitioner.py`).
INSTEAD = {
    "addcmul": "addcmul as x + y * z",
    "index_select": "x[:, [3, 1, 2]] as slices",
    "lerp": "lerp as x + (y - x) / 4",
    "tril": "triu as a product with a mask",
    "triu": "triu as a product with a mask",
    "x[:, [3, 1, 2]]": "x[:, [3, 1, 2]] as slices",
}
