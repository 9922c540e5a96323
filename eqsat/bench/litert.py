"""The LiteRT path from PyTorch to an Ethos-U.

It is litert-torch, ai-edge-quantizer (static int8), and Vela on the .tflite.
Its packages need other versions than ExecuTorch, so they have an environment of their own.
`eqsat bench --setup-litert DIR` makes it.
The int8 model differs from that of eqsat and ExecuTorch in its scales and its arithmetic.
So nothing is compared to the bit; only cycles are compared.
Vela is not part of that environment: the version that compiles everything compiles the .tflite.
It does so in its best settings, as for `stock-best`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import venv
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from eqsat.bench.cells import key, sources
from eqsat.bench.settings import in_best_settings
from eqsat.ground.files import InputError
from eqsat.ground.worker import Pool
from eqsat.search.figures import calibrated_cycles
from eqsat.target.configuration import parse_target
from eqsat.vela.compile import compile_tflite
from eqsat.vela.facts import version as vela_version
from eqsat.vela.roofline import by_operator

#: Versions that were measured. torch is ExecuTorch's, so that random weights are equal.
REQUIREMENTS = ("torch==2.13.0", "litert-torch==0.10.0", "ai-edge-quantizer==0.10.0")
_SCRIPT = Path(__file__).with_name("litert_convert.py")


def setup(directory: Path) -> None:
    """Makes the environment (about 2 GB). Raises InputError with the end of pip's output."""
    venv.create(directory, with_pip=True, clear=False)
    # torch by its exact version first, as a range may resolve to a build with gigabytes of CUDA
    for requirements in (REQUIREMENTS[:1], REQUIREMENTS):
        done = subprocess.run(
            [str(_python(directory)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise InputError(f"the LiteRT environment cannot be made: {done.stderr.strip()[-400:]}")


def check(environment: Path | None) -> None:
    """Raises InputError if the environment is not there."""
    if environment is None or not _python(environment).exists():
        given = f" and there is none in {environment}" if environment else ""
        raise InputError(
            f"the LiteRT path needs its own environment{given}: make it with "
            "`eqsat bench --setup-litert DIR`, then give --litert DIR"
        )


def fingerprint() -> str:
    return key(sources(), *REQUIREMENTS)


def measure(
    reference: str, target: str, environment: str
) -> tuple[dict[str, Any], dict[str, bytes], list[list[dict[str, Any]]]]:
    """Measures the model on this path, like `measure.measure`.

    Raises RuntimeError with the conversion's error.
    """
    buffer, converting = converted(reference, environment)
    seconds = dict(converting)
    compiled_for = parse_target(target)
    with Pool(1) as pool:
        started = time.perf_counter()
        estimate, settings = in_best_settings(compiled_for, partial(compile_tflite, buffer, via=pool))
        seconds["vela"] = time.perf_counter() - started
    return (
        {
            "vela": vela_version(),
            "delegates": 1,
            "cycles": estimate.cycles,
            "corrected": estimate.corrected,
            "calibrated": calibrated_cycles(estimate, compiled_for),
            "by_kind": estimate.by_kind,
            "by_operator": by_operator(estimate.rows),
            "cpu_operators": estimate.cpu_operators,
            "memory": {k: m for k, m in estimate.memory.items() if any(m.values())},
            "settings": [settings],
            "tflite_bytes": estimate.binary[0],
            "seconds": {k: round(v, 3) for k, v in seconds.items()},
            "verified": None,
        },
        {},
        [[r.record() for r in estimate.rows]],
    )


@lru_cache(maxsize=1)
def converted(reference: str, environment: str) -> tuple[bytes, dict[str, float]]:
    """Returns the .tflite of a model, and seconds by stage. Raises RuntimeError.

    It is kept, since a process is asked for all targets of a model in turn.
    """
    with tempfile.TemporaryDirectory() as d:
        out = Path(d) / "model.tflite"
        done = subprocess.run(
            [str(_python(Path(environment))), str(_SCRIPT), reference, str(out)], capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"conversion to .tflite failed: {_last_words(done.stderr)}")
        return out.read_bytes(), json.loads(done.stdout.splitlines()[-1])


def _python(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _last_words(text: str) -> str:
    """Returns the line of the exception; progress lines of the libraries may follow it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "Exception" in line]
    return (errors or lines or ["no message"])[-1][:400]
