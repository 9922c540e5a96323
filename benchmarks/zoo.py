"""The main job over the zoo: stock ExecuTorch against eqsat, model by model and target by target.

    python -m benchmarks.zoo --models emg,unet --targets ethos-u55-128,ethos-u85-256 --out benchmarks/results/zoo

Every cell is `eqsat compile --json` in a process of its own; `records.jsonl` has a line per cell and a run that was interrupted goes
on where it stopped; `table.md` is made from it. Cycles are Vela's totals; seconds are wall time of that cell, optimizer's and ExecuTorch's.
"""
from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.models import ZOO

ROOT = Path(__file__).parent.parent
TARGETS = ("ethos-u55-128", "ethos-u85-256")


def run_cell(model: str, target: str, timeout: float) -> dict:
    """The record of one cell; a failure is a record with its error."""
    cell = {"name": model, "target": target}
    with tempfile.TemporaryDirectory() as d:
        command = [sys.executable, "-m", "eqsat.cli", "compile", f"benchmarks.models.{model}:model", "-t", target, "-o", f"{d}/m.pte", "--json"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=timeout)
        except subprocess.TimeoutExpired:
            return {**cell, "error": f"took over {timeout:.0f} s"}
    if done.returncode not in (0, 4):
        return {**cell, "error": done.stderr.strip()[-500:]}
    return {**cell, **json.loads(done.stdout)}


def optimizer_seconds(record: dict) -> float:
    return sum(s for stage, s in record["seconds"].items() if stage.startswith("eqsat: "))


def table(records: list[dict]) -> str:
    """Markdown: a row per cell, geometric means per target."""
    lines = ["| model | target | stock | eqsat | ratio | verified | eqsat s | ExecuTorch s | share |", "|---|---|--:|--:|--:|---|--:|--:|--:|"]
    ratios: dict[str, list[float]] = {}
    for r in sorted(records, key=lambda r: (ZOO.index(r["name"]) if r["name"] in ZOO else len(ZOO), r["target"])):
        if "error" in r or r["cycles"]["stock"] is None or r["cycles"]["eqsat"] is None:
            lines.append(f"| {r['name']} | {r['target']} | - | - | - | {' '.join(r.get('error', 'no stock graph').split())[:80]} | | | |")
            continue
        old, new = r["cycles"]["stock"], r["cycles"]["eqsat"]
        ratios.setdefault(r["target"], []).append(new / old)
        ours, theirs = optimizer_seconds(r), r["seconds"]["executorch lowering"]
        lines.append(f"| {r['name']} | {r['target']} | {old:,} | {new:,} | {new / old:.3f} | {'yes' if r['verified'] else 'no'} | {ours:.1f} | {theirs:.1f} "
                     f"| {ours / theirs:.0%} |")
    for target, values in ratios.items():
        mean = math.exp(sum(map(math.log, values)) / len(values))
        lines.append(f"| **geometric mean of {len(values)}** | {target} | | | **{mean:.3f}** | worst {max(values):.3f} | | | |")
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(ZOO))
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/zoo")
    parser.add_argument("--timeout", type=float, default=1200, help="seconds per cell")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "records.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(r["name"], r["target"]) for r in records if "error" not in r}
    records = [r for r in records if "error" not in r]
    for model in args.models.split(","):
        for target in args.targets.split(","):
            if (model, target) in done:
                continue
            record = run_cell(model, target, args.timeout)
            records.append(record)
            path.write_text("".join(json.dumps(r) + "\n" for r in records))
            print(model, target, record.get("error") or record["cycles"], flush=True)
    (args.out / "table.md").write_text(table(records))
    print(table(records))


if __name__ == "__main__":
    main()
