"""Makes upscale.tosa: the model of export.py as the Arm backend hands it to eqsat, with explicit layout.

python examples/make_tosa.py examples/upscale.tosa
"""

import sys
from pathlib import Path

from executorch.backends.arm.ethosu import EthosUCompileSpec

import eqsat

sys.path.insert(0, str(Path(__file__).parent))
from export import quantized  # noqa: E402


def tosa() -> bytes:
    spec = EthosUCompileSpec("ethos-u85-256")
    _, session = eqsat.lower_with_session(quantized(spec), spec)
    return session.results[0].explicit


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(tosa())
