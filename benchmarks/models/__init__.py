"""The model zoo: small, realistic networks in plain torch.nn with random weights, one file each.

module, inputs = load("ds_cnn")    # eval mode; inputs is a tuple of example tensors

The function `model` of each file returns the same pair.
"""

import importlib

from torch import Tensor, nn

#: Names of the networks of the zoo.
ZOO: tuple[str, ...] = (
    *("ds_cnn", "shufflenet_v2", "mobilenet_v2", "emg", "streaming_tcn", "pixel_shuffle", "unet", "attention"),
    *("mobilenet_v3_small", "ghostnet", "densenet_like", "conformer", "convnext_atto_like", "mobilevit_block"),
    *("swin_block", "gru_cell", "espcn", "resnet8", "gesture_conv1d", "vit", "mlp_mixer", "wavenet", "deeplab"),
    *("mdsr", "audio_encoder", "resnext", "unet_bilinear"),
)

#: Names of networks that people deploy, at the sizes at which they deploy them.
#: They are a set of their own, so that records of the zoo stay comparable.
DEPLOYED: tuple[str, ...] = (
    *("anomaly_autoencoder", "mobilenet_v1_025", "rnnoise_like", "lstm_speech", "decoder_block", "face_landmarks"),
    *("mcunet_like", "wav2letter_like", "levit_like", "yolo_fastest_like", "efficientnet_lite", "yolo_v8n_like"),
    *("mobilenet_v4_like", "fastvit_like", "efficientformer_like", "conv_tasnet_like", "mixnet_like"),
    *("lstm_keyword", "gru_sensor", "crnn", "voice_activity"),
)


def load(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Returns the model called `name` in eval mode and its example inputs, the same on every call.

    Raises ValueError if there is no such model.
    """
    if name not in (*ZOO, *DEPLOYED):
        raise ValueError(f"unknown model {name!r}; there are: {', '.join((*ZOO, *DEPLOYED))}")
    return importlib.import_module(f"{__name__}.{name}").model()
