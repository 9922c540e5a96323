"""The harness of studies, and their list."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.__main__ import studies
from benchmarks.study import Record, Study, read_lines


def _study(measured: list[int], sources: str = "a") -> Study:
    """Returns a study of squares, of which one is a fault; it notes what it measures."""

    def cells(args: argparse.Namespace, records: Sequence[Record]) -> Iterator[tuple[Record, int]]:
        yield from (({"n": n}, n) for n in range(args.count))

    def measure(n: int, args: argparse.Namespace) -> list[Record]:
        if n == args.broken:
            raise KeyboardInterrupt
        measured.append(n)
        return [{"square": n * n}]

    def options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--count", type=int)
        parser.add_argument("--broken", type=int)

    def table(records: Sequence[Record], about: object) -> str:
        return f"{sum(r['square'] for r in records)}\n"

    def faults(records: Sequence[Record]) -> list[str]:
        return [str(r["n"]) for r in records if r["square"] > 8]

    return Study("Squares.", "squares", options, cells, measure, table, faults, sources=lambda: sources)


def test_an_interrupted_run_goes_on_and_changed_sources_are_measured_again(tmp_path: Path) -> None:
    measured = list[int]()
    with pytest.raises(KeyboardInterrupt):
        _study(measured).main(["--count", "3", "--broken", "2", "--out", str(tmp_path)])
    assert _study(measured).main(["--count", "3", "--out", str(tmp_path)]) == 0
    assert measured == [0, 1, 2] and (tmp_path / "table.md").read_text() == "5\n"
    assert _study(measured).main(["--count", "4", "--out", str(tmp_path)]) == 1, "3 squared is a fault"
    assert measured == [0, 1, 2, 3]
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(SystemExit, match="2 records of other sources that this run does not measure again"):
        _study(measured, "b").main(["--count", "2", "--out", str(tmp_path)])
    assert before == {p: p.read_bytes() for p in tmp_path.iterdir()}
    assert _study(measured, "b").main(["--count", "4", "--out", str(tmp_path)]) == 1
    assert measured == [0, 1, 2, 3, 0, 1, 2, 3] and len(read_lines(tmp_path / "records.jsonl")) == 4


def test_every_command_of_a_study_says_what_it_answers_and_how_long_it_takes() -> None:
    listed = {command: (answers, takes) for command, answers, takes in studies()}
    mains = (p for p in Path("benchmarks").rglob("*.py") if '__name__ == "__main__"' in p.read_text())
    commands = {".".join(p.with_suffix("").parts).removesuffix(".__main__") for p in mains}
    assert listed.keys() == commands and all(map(all, listed.values()))
