"""Element types of tensors: how numpy and Vela store them."""

from __future__ import annotations

import numpy as np

#: dtype -> numpy storage. INT48 lives in int64.
STORAGE: dict[str, type] = {
    "BOOL": np.bool_,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT48": np.int64,
    "FP32": np.float32,
    "FP16": np.float16,
}
#: dtype -> bytes per element as Vela stores it.
BYTES = {"BOOL": 1, "INT4": 1, "INT8": 1, "INT16": 2, "INT32": 4, "INT48": 8, "FP32": 4, "FP16": 2, "BF16": 2}
