"""Measures the LiteRT path from PyTorch to an Ethos-U, beside the configurations of `eqsat bench`.

    python -m benchmarks.litert setup LITERT
    python -m benchmarks.litert measure LITERT --models deployed,zoo --out RUN

Takes a conversion of each network, and several compilations for each target.
The path is litert-torch, ai-edge-quantizer (static int8), and Vela on the .tflite.
Its packages need other versions than ExecuTorch, so `setup` makes an environment of their own (about 2 GB).
The records, of the configuration `litert`, are added to those of `eqsat bench --out RUN`.
`eqsat report RUN` shows them.
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
from contextlib import closing
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from benchmarks.study import TARGETS, arguments, listed
from benchmarks.tflite import compile_tflite, count_cycles
from eqsat.bench import isolated
from eqsat.bench.cells import LITERT, Model, key, model_sets, sources
from eqsat.bench.measure import in_best_settings
from eqsat.bench.records import Record, RunFiles
from eqsat.ground.files import InputError
from eqsat.ground.worker import Pool
from eqsat.target.accelerators import parse_target
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


def run(environment: Path, models: list[str], targets: list[str], out: Path) -> None:
    """Adds the records of models on targets to those of a run; what is there is not measured again.

    Raises InputError.
    """
    if not _python(environment).exists():
        raise InputError(f"there is no LiteRT environment in {environment}: make it with the task setup")
    own = Path(__file__).read_bytes(), _SCRIPT.read_bytes()
    names = [name for given in models for name in model_sets().get(given, (given,))]
    with closing(RunFiles(out)) as files, isolated.threads(1):
        for model in map(Model.find, names):
            for target in targets:
                at, cell = (model.name, target, LITERT), key(model.fingerprint(), target, sources(), *own)
                old = files.records.get(at, {})
                if old.get("key") == cell and "lost" not in old:
                    continue
                args = model.reference, target, str(environment)
                outcome = isolated.attempt("benchmarks.litert:measure", args, isolated.LIMITS)
                record: Record = {"model": model.name, "target": target, "configuration": LITERT, "key": cell}
                if outcome.error:
                    record |= {"error": outcome.error, **({"lost": True} if outcome.lost else {})}
                else:
                    fields, rows = outcome.value
                    record |= {**fields, "peak_mib": outcome.peak_mib}
                    files.save_chosen(at, {}, rows)
                files.add(record)
                print(*at, record.get("error") or f"{record['cycles']:,} cycles")
        files.save_outlines()


def measure(reference: str, target: str, environment: str) -> tuple[Record, list[list[dict[str, Any]]]]:
    """Measures a model on this path, and returns (fields of the record, Vela's table).

    Raises RuntimeError with the conversion's error.
    """
    buffer, converting = converted(reference, environment)
    seconds = dict(converting)
    compiled_for = parse_target(target)
    with Pool(1) as pool:
        started = time.perf_counter()
        estimate, settings = in_best_settings(compiled_for, partial(compile_tflite, buffer, via=pool), count_cycles)
        seconds["vela"] = time.perf_counter() - started
    return (
        {
            "vela": vela_version(),
            "delegates": 1,
            "cycles": estimate.cycles,
            "corrected": estimate.cycles,
            "calibrated": count_cycles(estimate, compiled_for),
            "by_kind": estimate.by_kind,
            "by_operator": by_operator(estimate.rows),
            "cpu_operators": estimate.cpu_operators,
            "memory": {k: m for k, m in estimate.memory.items() if any(m.values())},
            "settings": [settings],
            "tflite_bytes": len(estimate.stream),
            "seconds": {k: round(v, 3) for k, v in seconds.items()},
            "verified": None,
        },
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
            # -P: the names of this folder's modules are not those of the environment
            [str(_python(Path(environment))), "-P", str(_SCRIPT), reference, str(out)],
            capture_output=True,
            text=True,
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


def main(argv: list[str] | None = None) -> int:
    parser = arguments(__doc__)
    parser.add_argument("task", choices=("setup", "measure"))
    parser.add_argument("environment", type=Path, help="directory of the LiteRT environment")
    parser.add_argument("--models", type=listed, default=["zoo"], help="as for eqsat bench")
    parser.add_argument("--targets", type=listed, default=list(TARGETS), help="as for eqsat bench")
    parser.add_argument("--out", type=Path, default=Path("RUN"), help="directory of the run")
    args = parser.parse_args(argv)
    if args.task == "setup":
        setup(args.environment)
    else:
        run(args.environment, args.models, args.targets, args.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
