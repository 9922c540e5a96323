from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from eqsat.ground.versions import commit
from tests.fuzzing.formats import FORMATS
from tests.fuzzing.reading import Tally, run
from tests.fuzzing.table import markdown

#: Inputs of the other formats, per input of TOSA's.
_SHARE = {
    "tosa": 1.0,
    "search": 0.01,
    "choice-graph": 0.05,
    "run": 0.02,
    "prices": 0.02,
    "records": 0.02,
    "reports": 0.005,
    "pt2": 0.01,
    "outlines": 0.02,
    "raw": 0.01,
    "payload": 0.01,
    "pte": 0.005,
    "certificate": 0.02,
    "inputs": 0.02,
    "answers": 0.02,
    "defaults": 0.02,
    "weights": 0.05,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description="Fuzz everything that reads a file.")
    parser.add_argument(
        "--inputs", type=int, default=100_000, help="damaged TOSA files; other formats get a share of that"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", default=",".join(FORMATS), help="by commas")
    parser.add_argument(
        "--model", default="pixel_shuffle", help="a model of the zoo whose lowered graphs join the corpus; empty: none"
    )
    parser.add_argument("--out", type=Path, help="directory for fuzz.json and fuzz.md")
    args = parser.parse_args()
    tallies, started = [], time.time()
    for name in args.formats.split(","):
        with tempfile.TemporaryDirectory(prefix="eqsat-fuzz-") as d:
            place = Path(d)
            (place / "corpus").mkdir()
            FORMATS[name].prepare(place / "corpus")
            if args.model and name == "tosa":
                _lowered(args.model, place / "corpus")
            tallies.append(run(name, args.seed, max(1, int(args.inputs * _SHARE[name])), place))
        _show(tallies[-1])
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        record = {
            "commit": commit(),
            "seed": args.seed,
            "model": args.model,
            "seconds": round(time.time() - started),
            "formats": [_record(t) for t in tallies],
        }
        (args.out / "fuzz.json").write_text(json.dumps(record, indent=1) + "\n")
        (args.out / "fuzz.md").write_text(markdown(record))
    if any(t.findings for t in tallies):
        raise SystemExit(1)


def _lowered(model: str, place: Path) -> None:
    """The graphs of a real model."""
    from eqsat.bench.lowering import prepare

    files, _ = prepare(f"benchmarks.models.{model}:model", "ethos-u85-256")
    for name, data in files.items():
        (place / f"{model}.{name}.tosa").write_bytes(data)


def _record(t: Tally) -> dict:
    return {**asdict(t), "outcomes": dict(t.outcomes.most_common())}


def _show(t: Tally) -> None:
    accepted = sum(n for k, n in t.outcomes.items() if k.startswith("accepted"))
    print(
        f"{t.format}: {t.inputs} inputs, {accepted} accepted, {t.inputs - accepted - len(t.findings)} refused, {len(t.findings)} findings",
        flush=True,
    )
    for f in t.findings[:20]:
        print(f"  input {f['number']} ({f.get('how', '')}): {f['finding']}")


main()
