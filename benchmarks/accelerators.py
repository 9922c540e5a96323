"""Every accelerator configuration of Vela, with its memory modes and system configurations: eqsat's cycles to stock's.

    python -m benchmarks.accelerators --tosa DIR --out benchmarks/results/accelerators

DIR holds what `eqsat bench` saves, or any files `<model>.<delegate>.<target>.{explicit,stock}.tosa`. A graph at the
hook point depends on the family of the target alone (`tests/benchmarks/test_accelerators.py`), so that the graphs of
one accelerator of a family are compiled for all of them.
`records.jsonl` has a line per graph and setup; an interrupted run goes on where it stopped, unless the sources have
changed. `table.md` and `picture.svg` are made from it, and `run.json` has the commit, the versions and the options.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from benchmarks.ablation import DelegateGraph, graphs, nothing_fits
from benchmarks.about import as_text, write_about
from eqsat.bench.cells import measuring_fingerprint
from eqsat.bench.log import Log
from eqsat.ground.files import write_atomically
from eqsat.options.options import Options
from eqsat.report.data import geometric_mean
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import ACCELERATORS, FAMILIES, Target

ROOT = Path(__file__).parent.parent
#: Seconds for running binaries, at any effort.
#: The benchmark asks whether binaries are right, and not how long that takes.
_BINARY_SECONDS = 60.0
#: The keys that identify a record.
CELL = ("model", "delegate", "accelerator", "system_config", "memory_mode")
_PACKAGES = ("executorch", "ethos-u-vela", "egglog")
_SHARED, _ONLY, _DEDICATED = "Shared_Sram", "Sram_Only", "Dedicated_Sram_384KB"
#: Memory modes that Vela takes with ExecuTorch's system configuration, by family.
#: On U55 it refuses those with the arena outside SRAM.
_MODES = {"u55": (_SHARED, _ONLY), "u65": (_DEDICATED, _SHARED, _ONLY), "u85": (_ONLY, _SHARED, _DEDICATED)}
#: Further setups, on one accelerator of each family.
#: They have the other system configurations of Vela's file, in a memory mode that each takes.
#: On U65 they also have the other sizes of a dedicated SRAM.
_OTHERS = (
    ("ethos-u55-128", "Ethos_U55_Deep_Embedded", _SHARED),
    ("ethos-u65-256", "Ethos_U65_Embedded", _SHARED),
    ("ethos-u65-256", "Ethos_U65_Mid_End", _DEDICATED),
    ("ethos-u65-256", "Ethos_U65_Client_Server", _DEDICATED),
    ("ethos-u65-256", "Ethos_U65_High_End", "Dedicated_Sram"),
    ("ethos-u65-256", "Ethos_U65_High_End", "Dedicated_Sram_256KB"),
    ("ethos-u65-256", "Ethos_U65_High_End", "Dedicated_Sram_512KB"),
    ("ethos-u85-256", "Ethos_U85_SYS_Flash_Low", _SHARED),
    ("ethos-u85-256", "Ethos_U85_SYS_Flash_High", _SHARED),
    ("ethos-u85-256", "Ethos_U85_SYS_DRAM_Low", _DEDICATED),
    ("ethos-u85-256", "Ethos_U85_SYS_DRAM_High", _DEDICATED),
)


@dataclass(frozen=True, slots=True)
class Setup:
    """An accelerator configuration of Vela with one of its system configurations and memory modes."""

    accelerator: str
    system_config: str
    memory_mode: str

    @property
    def target(self) -> Target:
        return Target.of(self.accelerator, system_config=self.system_config, memory_mode=self.memory_mode)

    @property
    def is_default(self) -> bool:
        return self.target == Target.of(self.accelerator)

    def __str__(self) -> str:
        system = self.system_config.removeprefix("Ethos_").partition("_")[2].removeprefix("SYS_")
        return f"{self.accelerator.removeprefix('ethos-')} {system} {self.memory_mode}"


def setups(accelerators: Sequence[str] = ()) -> list[Setup]:
    """Returns all setups, in the order of the accelerators.

    accelerators: only those of these; all if empty.
    """
    found = [
        Setup(accelerator, family.system_config, mode)
        for family in FAMILIES
        for accelerator in family.cores
        for mode in _MODES[family.name]
    ]
    found += [Setup(*o) for o in _OTHERS]
    return sorted(
        (s for s in found if not accelerators or s.accelerator in accelerators),
        key=lambda s: ACCELERATORS.index(s.accelerator),
    )


def cells(directory: Path, models: Sequence[str], wanted: Sequence[Setup]) -> Iterator[tuple[DelegateGraph, Setup]]:
    """Yields every graph with each setup of its family.

    If a model was saved for several accelerators of a family, its graphs for the first of them are used.
    """
    taken: dict[tuple[str, str], str] = {}
    for graph in graphs(directory, models):
        family = Target.of(graph.target).family
        if taken.setdefault((graph.model, family.name), graph.target) == graph.target:
            yield from ((graph, s) for s in wanted if s.target.family is family)


def measure(graph: DelegateGraph, setup: Setup, options: Options) -> dict[str, Any]:
    """Returns the figures of stock and of eqsat, or the error.

    cycles: by Vela.
    sram, flash: bytes, [those of stock, those of eqsat].
    """
    started = time.perf_counter()
    try:
        r = optimize_tosa(graph.explicit.read_bytes(), setup.target, stock=graph.stock.read_bytes(), options=options)
    except Exception as e:  # noqa: BLE001 - a failure is a row of the table
        return {"error": f"{type(e).__name__}: {e}"}
    return {
        "stock": r.stock_cycles,
        "eqsat": r.cycles,
        "sram": [r.stock_footprint and r.stock_footprint.sram, r.footprint.sram],
        "flash": [r.stock_footprint and r.stock_footprint.payload, r.footprint.payload],
        "chosen": r.chosen,
        "verified": r.verified,
        "binary_verified": r.binary_verified,
        "binary_reason": r.binary_reason,
        "stock_binary_verified": r.stock_binary_verified,
        "e_nodes": r.e_nodes,
        "stop": r.stop,
        "warnings": r.warnings,
        "seconds": round(time.perf_counter() - started, 2),
    }


@dataclass(frozen=True, slots=True)
class Row:
    """The results of a setup.

    ratios: {model: cycles of eqsat over those of stock}, of models of which all delegates have both.
    dearer: number of delegates that take more cycles than stock's.
    more_sram: number of delegates that need more SRAM than stock's.
    binaries: numbers of binaries that equal the reference, differ from it, and were not run.
    failed: number of delegates that failed.
    no_stock: number of delegates without a total of stock's.
    """

    ratios: Mapping[str, float]
    dearer: int
    more_sram: int
    binaries: tuple[int, int, int]
    failed: int
    no_stock: int

    @staticmethod
    def of(records: Sequence[Mapping[str, Any]]) -> Row:
        """Returns the row of the records of one setup."""
        whole = [r for r in records if "error" not in r]
        both = [r for r in whole if r["stock"]]
        left_out = {r["model"] for r in records if "error" in r or not r["stock"]}
        sums: dict[str, list[int]] = {}
        for r in both:
            total = sums.setdefault(r["model"], [0, 0])
            total[0] += r["stock"]
            total[1] += r["eqsat"]
        verdicts = Counter(r["binary_verified"] for r in whole)
        return Row(
            {m: ours / stock for m, (stock, ours) in sums.items() if m not in left_out},
            sum(r["eqsat"] > r["stock"] for r in both),
            sum(r["sram"][1] > r["sram"][0] for r in both),
            (verdicts[True], verdicts[False], verdicts[None]),
            len(records) - len(whole),
            len(whole) - len(both),
        )


def rows(records: Sequence[Mapping[str, Any]]) -> dict[Setup, Row]:
    """Returns the rows of all setups that have records, in the order of `setups`."""
    by_setup: dict[Setup, list[Mapping[str, Any]]] = {}
    for r in records:
        by_setup.setdefault(Setup(r["accelerator"], r["system_config"], r["memory_mode"]), []).append(r)
    return {s: Row.of(by_setup[s]) for s in setups() if s in by_setup}


def common(found: Mapping[Setup, Row]) -> list[str]:
    """Returns the models that every setup has.

    Means are over these, so that rows can be compared.
    """
    return sorted(set.intersection(*(set(row.ratios) for row in found.values()))) if found else []


def table(records: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> str:
    """Returns the tables as Markdown, with a row per setup.

    The first has the setups for which ExecuTorch compiles by default, the second all.
    about: the content of run.json.
    """
    found = rows(records)
    every = list(found.values())
    lines = [
        "# Accelerators",
        "",
        "Cycles relative to stock ExecuTorch on every accelerator, memory mode and system configuration of Vela; "
        "lower is better. Made by",
        f"`python -m benchmarks.accelerators`. {as_text(about)}; effort {about['effort']}.",
        "",
        *_grid("ExecuTorch's default for each accelerator", {s: r for s, r in found.items() if s.is_default}),
        *_grid("All setups", found),
        f"{len(found)} setups, {len(records)} delegates; dearer than stock's: {sum(r.dearer for r in every)}; more "
        f"SRAM than stock's: "
        f"{sum(r.more_sram for r in every)}; equal to the reference model: "
        f"{sum(bool(r.get('verified')) for r in records)}; failed: "
        f"{sum(r.failed for r in every)}; without a stock graph that Vela takes: {sum(r.no_stock for r in every)}.",
        "",
        *_notes(records),
    ]
    return "\n".join(lines) + "\n"


def _grid(title: str, found: Mapping[Setup, Row]) -> list[str]:
    shared, models = common(found), sorted({m for row in found.values() for m in row.ratios})
    lines = [
        f"## {title}",
        "",
        f"| accelerator, system, memory | {' | '.join(models)} | geometric mean of {len(shared)} | dearer | more "
        f"SRAM | binaries equal, differ, not run |",
        f"|---|{'--:|' * (len(models) + 4)}",
    ]
    for setup, row in found.items():
        ratios = (f"{row.ratios[m]:.3f}" if m in row.ratios else "-" for m in models)
        mean = f"**{geometric_mean(row.ratios[m] for m in shared):.3f}**" if shared else "-"
        binaries = ", ".join(map(str, row.binaries))
        lines.append(f"| {setup} | {' | '.join(ratios)} | {mean} | {row.dearer} | {row.more_sram} | {binaries} |")
    return [*lines, ""]


def _notes(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns lines with failures, warnings, and reasons why binaries were not run or differ.

    Each has the number of times that it occurs.
    """
    seen = Counter(
        f"{r['model']} {r['accelerator']}: {text}"
        for r in records
        for text in (
            r.get("error"),
            None if r.get("binary_verified") else r.get("binary_reason"),
            *r.get("warnings", ()),
        )
        if text
    )
    return [f"* {text}" + (f" ({n} times)" if n > 1 else "") for text, n in seen.items()]


def picture(records: Sequence[Mapping[str, Any]]) -> str:
    """Returns an SVG with a panel per family and a line per setup.

    It has a dot per model, and a stroke at the geometric mean of the models that every setup has.
    """
    from eqsat.report.figures import COLOURS, figure

    found = {s: row for s, row in rows(records).items() if row.ratios}
    shared = common(found)
    families = [f for f in FAMILIES if any(s.target.family is f for s in found)]

    def draw(made: Any, axes: list[Any]) -> None:
        for axis, family in zip(axes, families, strict=True):
            mine = [s for s in found if s.target.family is family]
            for y, setup in enumerate(mine):
                ratios = list(found[setup].ratios.values())
                axis.plot(
                    ratios, [y] * len(ratios), "o", color=COLOURS[0], alpha=0.45, markersize=3.5, markeredgewidth=0
                )
                if shared:
                    mean = geometric_mean(found[setup].ratios[m] for m in shared)
                    axis.plot([mean], [y], "|", color=COLOURS[1], markersize=11, markeredgewidth=2)
            axis.set_yticks(range(len(mine)), map(str, mine), fontsize=7)
            axis.set(xlim=(0, 1.05), ylim=(len(mine) - 0.5, -0.5), xlabel="cycles to stock's")
            axis.axvline(1, color="#808792", linewidth=0.8)
        made.tight_layout()

    return figure(draw, 4.6 * len(families), 5.2, len(families))


def write(records: Sequence[Mapping[str, Any]], about: Mapping[str, Any], out: Path) -> str:
    """Writes the table, whose text it returns, and the picture."""
    text = table(records, about)
    write_atomically(out / "table.md", text.encode())
    write_atomically(out / "picture.svg", picture(records).encode())
    return text


def run(found: Sequence[tuple[DelegateGraph, Setup]], out: Path, options: Options) -> str:
    """Fills `out`/records.jsonl and writes `out`/table.md, whose text it returns, and `out`/picture.svg."""
    out.mkdir(parents=True, exist_ok=True)
    version = measuring_fingerprint()
    log = Log(
        out / "records.jsonl",
        itemgetter(*CELL),
        lambda r: r.get("sources") == version and r.get("effort") == options.effort,
    )
    about = write_about(out, _PACKAGES, effort=options.effort)
    for graph, setup in found:
        record = {"model": graph.model, "delegate": graph.delegate, **asdict(setup)}
        if itemgetter(*CELL)(record) in log.records:
            continue
        record |= {**measure(graph, setup, options), "effort": options.effort, "sources": version}
        log.add(record)
        print(*itemgetter(*CELL)(record), record.get("error") or (record["stock"], record["eqsat"]), flush=True)
    return write(list(log.records.values()), about, out)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tosa", type=Path, required=True)
    parser.add_argument("--models", default="", help="default: all in the directory")
    parser.add_argument("--accelerators", default="", help="default: all that there are")
    parser.add_argument("--effort", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/accelerators")
    args = parser.parse_args(argv)
    models, accelerators = ([n for n in text.split(",") if n] for text in (args.models, args.accelerators))
    for name in accelerators:
        Target.check_name(name)
    found = list(cells(args.tosa, models, setups(accelerators)))
    if not found:
        parser.error(nothing_fits(args.tosa))
    print(run(found, args.out, Options(effort=args.effort, binary_time_limit=_BINARY_SECONDS)))


if __name__ == "__main__":
    main()
