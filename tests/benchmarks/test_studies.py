"""The harness of studies, their list, and a short run of each whose records nothing else compares."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import ablation, changed_binaries, whole_job
from benchmarks.__main__ import studies
from benchmarks.ablation import ALL, WITHOUT, SavedGraph, graphs, ratios
from benchmarks.changed_binaries import CHANGES, TARGETS, share
from benchmarks.discovery.convolutions import Window
from benchmarks.discovery.find import Discoverer, Neighbourhood
from benchmarks.discovery.rules import Equality, form_of, module
from benchmarks.measured import Cell, Fit, main, read_cells
from benchmarks.planted_errors import __main__ as planted
from benchmarks.planted_errors.edits import WRONG, applied, edits, graphs_with
from benchmarks.planted_errors.run import Trial
from benchmarks.planted_errors.subjects import head
from benchmarks.study import Record, Study, read_lines
from cost_models.calibration import calibration
from cost_models.command_stream import price
from eqsat.checking.user_rules import examine, find
from eqsat.ground.files import InputError
from eqsat.ground.worker import Pool
from eqsat.proof import PROVED, prove
from eqsat.rules import RULES
from eqsat.target import Target
from eqsat.tosa import dumps
from eqsat.vela.compile import compile_tosa
from tests.device.pieces import addition, convolution, of, table
from tests.graphs import U55, transposed_relus
from tests.sweeps import some
from tests.term import graph


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


OPTIONS = ["--extractor", "dag_greedy", "--time-limit", "1", "--max-flash", "1%"]


def _saved(place: Path) -> list[SavedGraph]:
    for kind in ("explicit", "stock"):
        (place / f"relus.0.ethos-u85-256.{kind}.tosa").write_bytes(dumps(transposed_relus(1)))
    return list(graphs(place))


def _run(place: Path, *asked: str) -> tuple[dict[str, Record], str]:
    """Returns the records by column, and the table."""
    assert ablation.STUDY.main(["--tosa", str(place), "--out", str(place / "out"), *OPTIONS, *asked]) == 0
    return {r["column"]: r for r in read_lines(place / "out/records.jsonl")}, (place / "out/table.md").read_text()


@pytest.mark.slow
def test_a_proposal_that_is_left_out_asks_for_nothing(tmp_path: Path) -> None:
    _saved(tmp_path)
    records, text = _run(tmp_path, "--proposals")
    compiled = records[ALL]["compiled"]
    assert compiled["greedy"] > 0 and records[ALL]["first"] == "greedy"
    # without a proposal that asked for nothing the search is the same, and is not repeated
    assert records.keys() == {ALL, *(WITHOUT + p for p in compiled)}
    assert all(name.removeprefix(WITHOUT) not in r["compiled"] for name, r in records.items())
    ratio = records[f"{WITHOUT}greedy"]["calibrated"] / records[ALL]["calibrated"]
    assert ratio > 1
    row = f"| greedy | {compiled['greedy']} | 1 | 1 | 1 | 0 | {ratio:.4f} | {ratio:.3f} | ethos-u85-256 relus 0 | 0 |"
    assert row in text and _run(tmp_path, "--proposals") == (records, text)
    about = {"commit": "0", "versions": {}, "arguments": {"objective": "cycles"}}
    without = ablation.table_of_proposals([records[ALL]], about)
    assert f"| greedy | {compiled['greedy']} | 1 | 1 | - | - | - | - | - | - |" in without, "it was never left out"


def test_one_rule_is_left_out_only_if_it_is_named() -> None:
    asked = argparse.Namespace(columns=[f"{WITHOUT}move-move"], proposals=False, cost_models=[])
    assert ablation.columns(asked) == [ALL, f"{WITHOUT}move-move"]
    assert f"{WITHOUT}move-move" not in ablation.columns(argparse.Namespace(**{**vars(asked), "columns": []}))
    assert {r.name for r in set(RULES) - set(ablation.rules_of(f"{WITHOUT}move-move"))} == {"move-move"}
    assert {r.family for r in set(RULES) - set(ablation.rules_of(f"{WITHOUT}across"))} == {"across"}
    with pytest.raises(SystemExit, match="no such columns: without nothing; there are all, without"):
        ablation.columns(argparse.Namespace(**{**vars(asked), "columns": [f"{WITHOUT}nothing"]}))


@pytest.mark.slow
def test_families_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "lonely.0.ethos-u85-256.explicit.tosa").write_bytes(b"")  # no stock graph: nothing to compare with
    found = _saved(tmp_path)
    assert [(g.model, g.delegate, g.target) for g in found] == [("relus", "0", "ethos-u85-256")]
    assert list(graphs(tmp_path, models=("other",))) == []
    asked = ("--columns", f"none,{WITHOUT}across")
    records, text = _run(tmp_path, *asked)
    assert list(records) == [ALL, f"{WITHOUT}across", "none"]
    assert all(r["verified"] for r in records.values())
    told = {name: [w.partition(": ")[0] for w in r["warnings"]] for name, r in records.items()}
    given = ["the explicit graph was not used", "stock ExecuTorch was not used"]  # Vela compiles both wrongly
    assert told == {ALL: ["Vela compiles stock's graph wrongly"], f"{WITHOUT}across": given, "none": given}
    (measured,) = ratios(list(records.values())).values()
    assert measured[ALL]["relus"] < measured["none"]["relus"] == measured[f"{WITHOUT}across"]["relus"] <= 1
    gain = measured["none"]["relus"] / measured[ALL]["relus"]
    assert f"| across | relus | {gain:.3f} | {gain:.3f} |" in text and _run(tmp_path, *asked) == (records, text)


@pytest.mark.slow
def test_jobs_are_measured_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All jobs run in this process, which has imported ExecuTorch already."""
    monkeypatch.setattr(whole_job, "_run", lambda *arguments: whole_job._job(*map(str, arguments)))
    place = ["--out", str(tmp_path)]
    arguments = ["--models", "pixel_shuffle", "--targets", "ethos-u85-256", "--jobs", "stock,effort-1", *place]
    whole_job.STUDY.main(arguments)
    text = (tmp_path / "records.jsonl").read_text()
    jobs = json.loads(text)["jobs"]
    assert list(jobs) == ["stock", "effort-1"] and all(j["seconds"] > 0 < j["processor"] for j in jobs.values())
    assert jobs["effort-1"]["cycles"] < jobs["effort-1"]["stock_cycles"]
    assert "| pixel_shuffle | ethos-u85-256 |" in (tmp_path / "table.md").read_text()
    whole_job.STUDY.main(arguments)
    assert (tmp_path / "records.jsonl").read_text() == text


@pytest.mark.slow
@pytest.mark.parametrize("target", some(TARGETS, 1))
def test_changes_are_noticed(target: str, tmp_path: Path) -> None:
    changed_binaries.STUDY.main(["--targets", target, "--graphs", "1", "--changes", "4", "--out", str(tmp_path)])
    records = read_lines(tmp_path / "records.jsonl")
    assert len(records) == 4 * len(CHANGES)
    commands = [r for r in records if "constants" not in r["kind"]]
    assert share(commands) >= 0.9
    assert any(r["outcome"] == "wrong" for r in records)
    text = (tmp_path / "table.md").read_text()
    assert f"| all | {len(records)} |" in text and "Without effect" in text


@pytest.mark.slow
def test_none_of_a_few_passes(tmp_path: Path) -> None:
    assert planted.STUDY.main(["--heads", "rescales,selection,choice", "--edits", "3", "--out", str(tmp_path)]) == 0
    found = read_lines(tmp_path / "records.jsonl")
    assert sum(r["changes"] for r in found) >= 8 and not any(r["passes"] for r in found)
    assert {r["inputs"] for r in found} == {1, 2, 3}
    assert "**0**" in (tmp_path / "table.md").read_text()


def test_what_changes_nothing_is_left_out(pool: Pool) -> None:
    """A clamp after a table that gives less than its limit."""
    subject = head("chain", "INT8", 8, False)
    trial = Trial(subject, pool)
    found = [applied(subject.graph, e) for e in edits(subject.graph) if e.kind == "wrong table entry"]
    results = [trial.planted("wrong table entry", "", f) for f in found if f is not None]
    assert any(r is not None and r["equivalent"] for r in results)
    assert all(r is not None and not r["passes"] for r in results if r is not None and r["changes"])


def test_a_wrong_rule_gives_wrong_graphs_that_do_not_pass(pool: Pool) -> None:
    wrong = next(r for r in WRONG if r.name == "binary-commutes")
    subject = head("subtraction", "INT8", 8, True)
    trial = Trial(subject, pool)
    results = [trial.planted(wrong.name, "", g) for g in graphs_with(wrong, subject.graph, 1)]
    assert any(r is not None and r["changes"] for r in results)
    assert not any(r is not None and r["passes"] for r in results)


PLAIN = Window("conv2d", ("plain", 1), ("plain", 1))


def test_an_instance_must_be_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe that gives something else makes no instance."""
    given, wrong = (graph("x:INT8[1,4]", lambda x, high=high: x.clamp(-128, high)) for high in (100, 126))
    form = form_of(given)
    for made in (given, wrong):
        monkeypatch.setattr(Window, "follow", lambda recipe, source, made=made: made)
        instance = Equality.of(given, made, PLAIN).instance(form.attributes, [given.type(0)], [])
        assert (instance is not None) == (made is given)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_from_a_graph_to_a_rule(tmp_path: Path) -> None:
    """Without the family `blocking`, what it knows of one place is found again, and its rule fires and is sound."""
    rules = tuple(r for r in RULES if r.family != "blocking")
    part = Neighbourhood(graph("x:INT8[1,1,1,24]", lambda x: x.layer(72)), (0, 1))
    with Pool() as pool:
        found = Discoverer(Target.of("ethos-u85-256"), pool, rules).discover(part)
    assert found is not None and found.after < found.known / 3 and prove(part.graph, found.graph).verdict == PROVED
    (tmp_path / "found.tosa").write_bytes(dumps(part.graph))
    (tmp_path / "found.py").write_text(module(found, "found", "a test"))
    report = examine(find(str(tmp_path / "found.py")), graphs=5)
    assert report.matches["found"] and not report.unsound


def test_cells_are_priced_by_all_models_and_by_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.tosa").write_bytes(dumps(of(convolution, addition)))
    (tmp_path / "own.py").write_text("def commands(stream, target):\n    return len(stream)\n")
    cells = tmp_path / "cells.csv"
    rows = "net,ethos-u55-128,9000\nnet,ethos-u85-256,9000\nabsent,ethos-u55-128,1\nnet,ethos-u99-1,1\n"
    cells.write_text("file,target,cycles\n" + rows)
    own = f"{tmp_path}/own.py:commands"
    main([str(cells), str(tmp_path), "--json", "--model", own, "--out", str(tmp_path / "record")])
    told = json.loads(capsys.readouterr().out)
    assert {c["target"] for c in told["cells"]} == {"ethos-u55-128", "ethos-u85-256"}
    assert [line.split()[0] for line in told["skipped"]] == ["absent", "net"], "each with its reason"
    for cell in told["cells"]:
        assert set(cell["prices"]) == {"vela", "uncalibrated", "calibrated", own}
        assert all(p > 0 for p in cell["prices"].values())
    assert set(told["groups"]["U55"]["calibrated"]) == {"cells", "spread", "mean", "worst"}
    assert (tmp_path / "record/table.md").read_text().count("| net ") == 2


def test_constants_with_which_cycles_were_made_are_found(pool: Pool) -> None:
    graphs = {"a": of(convolution), "b": of(addition), "c": of(table, addition), "d": of(convolution, table)}
    made = replace(calibration(U55), per_command=500.0)
    cells = []
    for name, made_graph in graphs.items():
        compiled = compile_tosa(dumps(made_graph), U55, pool)
        measured = price(compiled.stream, U55, made).cycles
        cells.append(Cell(name, U55, "", measured, compiled.cycles, [compiled.stream], "U55"))
    fit = Fit(cells)
    assert fit.choose(range(len(cells))).per_command == pytest.approx(500, abs=40)
    _, ratios = fit.left_out(lambda c: c.model)
    assert set(ratios) == {c.name for c in cells} and all(r == pytest.approx(1, rel=0.1) for r in ratios.values())


def test_a_file_without_the_columns_is_an_error_that_names_them(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    path.write_text("model,target\nnet,ethos-u55-128\n")
    with pytest.raises(InputError, match="columns model, target and measured_fvp"):
        read_cells([path])
    for content in ("model,target\nnet,ethos-u55-128\n", "model,target,measured_fvp\nabsent,ethos-u55-128,9\n"):
        path.write_text(content)
        with pytest.raises(SystemExit):
            main([str(path), str(tmp_path)])
