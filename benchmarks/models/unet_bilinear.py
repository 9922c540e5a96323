"""A U-Net that enlarges by bilinear interpolation instead of transposed convolutions.

Source: Odena et al., "Deconvolution and checkerboard artifacts", Distill 2016.
Each level of the decoder has a RESIZE by two, which is concatenated with the tensor of the encoder and convolved.
The interpolation is linear with constant weights too, but it is no convolution of the graph.

Input: (1, 3, 64, 64).
Output: (1, 2, 64, 64) logits.
"""

from functools import partial

from benchmarks.models._blocks import seeded
from benchmarks.models.unet import UNet

model = seeded(partial(UNet, bilinear=True), (1, 3, 64, 64))
