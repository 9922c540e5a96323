"""Tables, comparisons and graph views from records."""

import json
import lzma
import re
import shutil
from pathlib import Path

import pytest

from eqsat.bench.records import RunFiles
from eqsat.ground.files import InputError
from eqsat.report import RecordedRun, compare, graphs
from eqsat.report.data import geometric_mean, note
from eqsat.report.write import markdown, standings, write
from eqsat.vela.facts import version
from tests import command
from tests.bench.runs import EXPLICIT, FIELDS, TARGET
from tests.graphs import transposed_relus
from tests.search.test_optimizer import plain_relus

pytestmark = pytest.mark.slow


def changed(zoo_run, tmp_path, change) -> RecordedRun:
    """A copy of the run, each record passed through `change`."""
    out = tmp_path / "changed"
    shutil.copytree(zoo_run, out)
    records = [json.loads(line) for line in (zoo_run / "records.jsonl").read_text().splitlines()]
    (out / "records.jsonl").write_text("".join(json.dumps(change(r)) + "\n" for r in records))
    return RecordedRun.read(out)


def on(configuration: str, **fields):
    return lambda r: {**r, **{k: f(r[k]) for k, f in fields.items()}} if r["configuration"] == configuration else r


def test_the_standing_is_by_the_cycles_that_decide(zoo_run, tmp_path):
    def standing(run: RecordedRun) -> dict[str, str]:
        table = standings(run)
        return next(dict(zip(table.header, row)) for row in table.rows if row[1] == "eqsat")

    run = RecordedRun.read(zoo_run)
    ours, stock = run.get("pixel_shuffle", TARGET, "eqsat"), run.baseline("pixel_shuffle", TARGET)
    assert standing(run)["to stock"] == f"{ours['calibrated'] / stock['calibrated']:.3f}" < "1"
    assert standing(run)["losses"] == "0" and geometric_mean([2, 8]) == 4
    worse = changed(zoo_run, tmp_path, on("eqsat", calibrated=lambda c: 100 * c))
    assert standing(worse)["losses"] == "1"
    assert "loss)" in markdown(worse) and "loss)" not in markdown(run)


@pytest.mark.parametrize(
    "fields, shown",
    [
        ({"binary_verified": lambda v: [None], "proved": lambda v: False}, "| yes |"),
        ({"binary_verified": lambda v: [True], "binary_proved": lambda v: [True]}, "| proved, its binary too |"),
        ({"binary_verified": lambda v: [False]}, "| proved, binary of eqsat wrong |"),
    ],
)
def test_what_was_found_in_the_binary_is_shown(fields, shown, zoo_run, tmp_path):
    assert shown in markdown(changed(zoo_run, tmp_path, on("eqsat", **fields)))


def test_without_stock_the_graph_without_layout_passes_is_the_baseline(zoo_run, tmp_path):
    def fail_stock(r: dict) -> dict:
        failed = {k: r[k] for k in ("model", "target", "configuration", "key")} | {"error": "no stock graph"}
        return failed if r["configuration"] == "stock" else r

    run = changed(zoo_run, tmp_path, fail_stock)
    assert run.baseline("pixel_shuffle", TARGET)["configuration"] == EXPLICIT
    assert "no stock graph" in markdown(run) and "| failed |" in markdown(run)


def test_versions_of_vela_are_named_and_told_apart(zoo_run, tmp_path):
    run = RecordedRun.read(zoo_run)
    assert run.vela == (version(),) and f"the estimate of Vela {version()} for" in markdown(run)
    assert "Cycles are of Vela" not in note(compare(run, run))
    older, newer = (changed(zoo_run, tmp_path / v, lambda r, v=v: r | {"vela": v}) for v in ("5.1.0", "5.3.0"))
    assert "new run and of Vela 5.1.0 in the old" in note(compare(newer, older))


def test_the_command_writes_and_exits_by_the_comparison(zoo_run, tmp_path):
    worse = changed(zoo_run, tmp_path, on("eqsat", calibrated=lambda c: 2 * c)).directory
    good = command.run("report", zoo_run, "--against", worse, "-o", tmp_path / "report")
    assert good.exit_code == 0, good.output
    made = {p.name for p in (tmp_path / "report").iterdir()}
    assert {"index.html", "report.md", f"pixel_shuffle.{TARGET}.html"} <= made
    bad = command.run("report", worse, "--against", zoo_run)
    assert bad.exit_code == 1 and "**regression** | pixel_shuffle" in bad.output
    assert "**regression**" in (worse / "report" / "report.md").read_text()


@pytest.fixture
def kept(zoo_run, tmp_path) -> Path:
    """The run as a clone has it: records and outlines, without `chosen/`."""
    return shutil.copytree(zoo_run, tmp_path / "kept", ignore=shutil.ignore_patterns("chosen", "graphs"))


def test_a_run_without_its_graphs_is_drawn_from_their_outlines(zoo_run, kept, tmp_path):
    written = {d: write(RecordedRun.read(d), tmp_path / f"report of {d.name}") for d in (zoo_run, kept)}
    whole, drawn = ({p.name: p.read_bytes() for p in paths} for paths in written.values())
    page = f"pixel_shuffle.{TARGET}.html"
    assert drawn[page] == whole[page] and drawn.keys() == whole.keys()
    assert whole[page].count(b".model-explorer.json</a>") == 1
    assert whole[page].count(b' class="graph" ') == 2 and b'class="cost"' in whole[page]


def test_outlines_outlast_a_run_that_measures_nothing_again(zoo_run, kept):
    files = RunFiles(kept)
    files.save_outlines()
    files.close()
    assert (kept / "outlines.json.xz").read_bytes() == (zoo_run / "outlines.json.xz").read_bytes()


def test_damaged_outlines_are_named(kept, tmp_path):
    data = (kept / "outlines.json.xz").read_bytes()
    bomb = lzma.compress(b"[" + b"0," * (8 << 20) + b"0]")
    for damaged in (data[: len(data) // 2], b"", lzma.compress(b'[["a"]]'), bomb):
        (kept / "outlines.json.xz").write_bytes(damaged)
        result = command.run("report", kept, "-o", tmp_path / "report")
        assert result.exit_code == 2 and "outlines.json.xz" in result.output


@pytest.mark.parametrize(("which", "name"), [("model", "../escaped"), ("target", "/tmp/x"), ("model", 7)])
def test_a_name_in_a_record_is_no_path(tmp_path, which, name):
    run = tmp_path / "run"
    run.mkdir()
    (run / "records.jsonl").write_text(json.dumps({**FIELDS, which: name}) + "\n")
    result = command.run("report", run, "-o", tmp_path / "pages")
    said = "not a plain file name" if isinstance(name, str) else "Expected `str`, got `int`"
    assert result.exit_code == 2 and said in result.output and which in result.output
    assert [p.name for p in tmp_path.iterdir()] == ["run"] and [p.name for p in run.iterdir()] == ["records.jsonl"]


def test_a_directory_without_records_names_the_remedy(tmp_path):
    done = command.run("report", tmp_path)
    assert done.exit_code == 2 and "eqsat bench --out" in " ".join(done.output.split())


def test_marks_what_is_gone_and_new():
    before, after = transposed_relus(), plain_relus()
    gone, new = graphs.marks(before, after)
    assert sorted(before.nodes[n].op for n in gone) == ["clamp", "clamp", "clamp", "transpose", "transpose"]
    assert {after.nodes[n].op for n in new} == {"clamp"}  # the relus have another shape; convolutions are the same
    assert graphs.marks(before, before) == (set(), set())
    picture = graphs.svg(before, gone, "gone")
    assert picture.count('class="transpose gone"') == 2 and picture.count("<rect") == len(graphs.list_shown(before))


ABOUT = {
    **{"commit": "3f9e39dc96da", "versions": {"torch": "2.13"}},
    **{"processors": 2, "memory_mib": 24105, "jobs": 2},
}
#: Where a field of another form is, and values that it may have there.
LINE, ABOUT_FILE = "records.jsonl, line 2", "run.json"
OTHERS = {LINE: ("a" * 5000, {"a": {"b": -1}}, float("nan")), ABOUT_FILE: ("a", [1], None)}


def read_with(directory: Path, at: str, name: str, value: object) -> None:
    """A run of two cells, of which one field is this, and its report."""
    second, about = ({**FIELDS, name: value}, ABOUT) if at == LINE else (FIELDS, {**ABOUT, name: value})
    lines = (json.dumps(r) + "\n" for r in ({**FIELDS, "configuration": "stock"}, second))
    (directory / "records.jsonl").write_text("".join(lines))
    (directory / "run.json").write_text(json.dumps(about))
    write(RecordedRun.read(directory), directory / "pages")


@pytest.mark.parametrize(
    ("at", "name", "damaged"),
    [
        *((LINE, name, "7") for name in ("verified", "cycles", "gap", "by_kind", "stop")),
        *((LINE, name, 7) for name in ("model", "binary_verified")),
        *((ABOUT_FILE, name, -1) for name in ("commit", "versions", "processors")),
    ],
)
def test_a_field_of_another_form_is_named_with_its_place(tmp_path, at: str, name: str, damaged: object) -> None:
    for value in OTHERS[at]:
        try:
            read_with(tmp_path, at, name, value)  # nothing else is raised
        except InputError as e:
            assert f"{tmp_path}/{at}: " in str(e) and len(str(e)) < 400, e
            assert f"$.{name}" in str(e) or f"`{name}`" in str(e) or "surrogates" in str(e), e
    with pytest.raises(InputError, match=rf"{at}: Expected .* at `\$\.{name}[^ ]*`; remove the (line|file)"):
        read_with(tmp_path, at, name, damaged)
    assert command.run("report", tmp_path).exit_code == 2


WITHOUT_CYCLES = json.dumps({k: v for k, v in FIELDS.items() if k != "cycles"})


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("run.json", "[1]", "run.json: Expected `object`, got `array`"),
        ("run.json", "{", "run.json is not JSON"),
        ("records.jsonl", WITHOUT_CYCLES, "line 1: Object missing required field `cycles`; remove the line"),
    ],
)
def test_a_file_of_something_else_is_one_line(tmp_path, file: str, text: str, said: str) -> None:
    (tmp_path / "records.jsonl").write_text(json.dumps(FIELDS) + "\n")
    (tmp_path / file).write_text(text)
    result = command.run("report", tmp_path)
    assert result.exit_code == 2 and len(result.stderr.splitlines()) == 1 and re.search(said, result.stderr)
