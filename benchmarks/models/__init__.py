"""The model zoo: small, realistic networks in plain torch.nn, random weights, one file each.

module, inputs = load("ds_cnn")    # eval mode; inputs is a tuple of example tensors
"""

import importlib

from torch import Tensor, nn

ZOO: tuple[str, ...] = (
    "ds_cnn",
    "shufflenet_v2",
    "mobilenet_v2",
    "emg",
    "streaming_tcn",
    "pixel_shuffle",
    "unet",
    "attention",
    "mobilenet_v3_small",
    "ghostnet",
    "densenet_like",
    "conformer",
    "convnext_atto_like",
    "mobilevit_block",
    "swin_block",
    "gru_cell",
    "espcn",
    "resnet8",
    "gesture_conv1d",
    "vit",
    "mlp_mixer",
    "wavenet",
    "deeplab",
    "mdsr",
    "audio_encoder",
    "resnext",
    "unet_bilinear",
)


def load(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The model called `name`, in eval mode, and its example inputs; the same on every call."""
    if name not in ZOO:
        raise ValueError(f"unknown model {name!r}; the zoo has: {', '.join(ZOO)}")
    return importlib.import_module(f"{__name__}.{name}").model()
