"""The command line as a user meets it."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from contextlib import closing
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner

from cost_models.cache import PriceCache
from eqsat.cli.options import OPTIONS, OptionsMaker, takes_options
from eqsat.ground.files import InputError
from eqsat.options.options import Options
from eqsat.search.result import Result
from eqsat.store.local import VARIABLE, Kind
from eqsat.store.store import PRICES, Store
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps, loads
from tests.cli import upscale
from tests.command import ROOT, UPSCALE, python, run
from tests.graphs import transposes
from tests.term import graph


def optimized(place: Path, *more: object, given: TensorGraph | None = None, target: str = "ethos-u85-256"):
    """What a command says that optimizes a graph, by default two transposes of no use, and its output; with little
    effort unless `more` says otherwise."""
    (place / "in.tosa").write_bytes(dumps(given or transposes(16)))
    arguments = (place / "in.tosa", "-t", target, "-o", place / "out.tosa", "--effort", 1, *more)
    return run("optimize", *arguments), place / "out.tosa"


@pytest.mark.slow
def test_other_seeds_of_hashes_and_stores_give_the_same_bytes(tmp_path):
    running = []
    for seed in "12":
        command = ("optimize", ROOT / "examples/upscale.tosa", "-t", "ethos-u85-256", "-o", tmp_path / seed, "-q")
        own = {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed, "EQSAT_CACHE": str(tmp_path / f"cache {seed}")}
        running.append(subprocess.Popen([sys.executable, "-m", "eqsat.cli", *command], env={**os.environ, **own}))
    assert [p.wait() for p in running] == [0, 0]
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


@pytest.mark.slow
def test_compile_a_saved_program_and_show_a_table(tmp_path):
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    from eqsat.executorch.loading import quantize

    torch.export.save(quantize(*upscale.model(), EthosUCompileSpec("ethos-u55-128")), tmp_path / "m.pt2")
    arguments = ("compile", tmp_path / "m.pt2", "-t", "ethos-u55-128", "-o", tmp_path / "m.pte", "--effort", 1)
    brief = run(*arguments)
    assert re.search(r"x fewer cycles \(-[\d.]+% \+- [\d.]+%\), SRAM -", brief.output)
    assert "\ncalibrated cycles " in brief.output and "inferences per second" in brief.output
    assert "\ntranspose" not in brief.output and "\ncommands " not in brief.output
    result = run(*arguments, "-v")
    assert result.exit_code == 0, result.output
    assert "transpose" in result.output
    title, gain, *_, written = result.stdout.splitlines()[-6:]
    assert title == f"{tmp_path / 'm.pt2'} on ethos-u55-128, Vela {version('ethos-u-vela')}"
    assert "x fewer cycles" in gain and "verified bit for bit: yes" in result.stdout and written.startswith("wrote ")
    assert "\ncommands " in result.output
    assert "not searched again: the answer is that of the same search before" in result.output
    assert (tmp_path / "m.pte").is_file()


def test_optimize_a_tosa_file(tmp_path):
    result, out = optimized(tmp_path, "--json")
    record = json.loads(result.stdout)
    assert record["milliseconds"] > 0
    assert record["cycles"]["eqsat"] < record["cycles"]["stock"] and record["verified"]
    assert "transpose" not in loads(out.read_bytes()).op_counts()
    assert record["command_stream"]["eqsat"]["commands"] < record["command_stream"]["stock"]["commands"]
    assert record["fits"] is True


def test_a_quiet_command_prints_nothing(tmp_path):
    done, out = optimized(tmp_path, "-q")
    assert (done.exit_code, done.output) == (0, "") and out.is_file()


def test_a_limit_that_nothing_meets_has_an_exit_code(tmp_path):
    result, out = optimized(tmp_path, "--max-sram", 1024, "--json")
    record = json.loads(result.stdout)
    assert result.exit_code == 4 and record["fits"] is False and out.is_file()
    (told,) = record["warnings"]
    assert told.startswith(f"does not fit: {record['footprint']['sram']:,} of 1,024 bytes of SRAM; ")
    assert record["nearest"].keys() == {"cycles", "sram", "flash", "vela_total"}
    assert all(record[k]["eqsat"] <= record[k]["stock"] for k in ("cycles", "corrected"))
    again, _ = optimized(tmp_path, "--max-sram", 1024)
    assert again.exit_code == 4 and again.stdout.splitlines()[-1] == told
    quiet, _ = optimized(tmp_path, "--max-sram", 1024, "-q")
    assert quiet.output.splitlines() == [f"warning: {told}"]


def test_a_line_says_for_which_memory_a_result_takes_more_cycles(tmp_path, monkeypatch):
    monkeypatch.setattr(Result, "price_of_limits", "SRAM 32.0 KiB -> 24.0 KiB (limit 24.0 KiB)")
    assert f"{Result.price_of_limits}\n" in optimized(tmp_path)[0].stdout


def test_where_no_alternative_is_found_the_exit_code_says_so(tmp_path):
    given, refusing = graph("x:INT8[1,3,5,7]", lambda x: x.relu()), ("--cost-model", "tests.planted_costs:Refusing")
    result, out = optimized(tmp_path, *refusing, given=given, target="ethos-u55-128")
    assert result.exit_code == 4 and "has a price" in " ".join(result.output.split())
    assert out.is_file()


@pytest.mark.parametrize(
    "dtype, code, words",
    [
        ("FP32", 2, "has tensors of FP32, and an Ethos-U computes integers only: RuntimeError: Compilation failed"),
        ("INT8", 3, "could not be optimized for ethos-u55-128: WorkerError: RuntimeError: Compilation failed"),
    ],
)
def test_a_file_that_vela_refuses_is_told_with_its_reason(tmp_path, dtype, code, words):
    """ABS of INT8 is no operator of TOSA, and none of U55 in floating point."""
    given = graph(f"x:{dtype}[1,3,5,7]", lambda x: x("abs"))
    result, out = optimized(tmp_path, "--json", given=given, target="ethos-u55-128")
    assert result.exit_code == code and not out.exists()
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"error: {tmp_path / 'in.tosa'} {words}")
    assert json.loads(result.stdout)["error"] == {"message": line.removeprefix("error: "), "exit_code": code}


def test_a_cache_that_cannot_be_used_is_told_once(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "file"))
    result, _ = optimized(tmp_path, "--json")
    assert result.exit_code == 0, result.output
    told = [w for w in json.loads(result.stdout)["warnings"] if "prices are measured anew each time" in w]
    assert len(told) == 1 and str(tmp_path / "file") in told[0]
    assert "cannot be used: " in run("cache", "info").output.replace("\n", " ")
    assert json.loads(run("cache", "info", "--json").stdout)["failure"]


@pytest.mark.parametrize("as_json", [False, True])
def test_the_last_line_says_why_nothing_was_gained(tmp_path, as_json):
    clamped = graph("x:INT8[1,4,4,8]", lambda x: x.clamp(0, 9))
    result, _ = optimized(tmp_path, "--effort", 2, *["--json"] * as_json, given=clamped)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    said = json.loads(result.stdout)["kept"] if as_json else lines[-2]
    assert as_json or lines[-7].startswith(f"{tmp_path / 'in.tosa'} on ethos-u85-256, Vela ")
    assert said == "nothing faster was found: the given graph is kept"


@pytest.mark.parametrize(
    "args, words",
    [
        (("compile", UPSCALE, "-t", "ethos-u99-1", "-o", "{tmp}/x.pte"), ("ethos-u99-1", "ethos-u85-256")),
        (("compile", "nothing.pt2", "-t", "ethos-u55-128", "-o", "{tmp}/x.pte"), ("nothing.pt2", "does not exist")),
        (("compile", "nowhere.py:f", "-t", "ethos-u55-128", "-o", "{tmp}/x.pte"), ("nowhere.py", "does not exist")),
        (("compile", f"{UPSCALE}_", "-t", "ethos-u55-128", "-o", "{tmp}/x.pte"), ("'model_'; did you mean 'model'?",)),
        (("compile", "model", "-t", "ethos-u55-128", "-o", "{tmp}/x.pte"), ("neither",)),
        (("compile", UPSCALE, "-t", "ethos-u55-128", "-o", "{tmp}/no/x.pte"), ("does not exist", "-o")),
        (("compile", UPSCALE, "-t", "ethos-u55-128", "-o", "{tmp}"), ("is a directory",)),
        (("compile", UPSCALE, "-t", "ethos-u55-128", "-o", "/proc/x.pte"), ("cannot write to /proc", "-o")),
        (("optimize", "none.tosa", "-t", "ethos-u55-128", "-o", "/proc/x.tosa"), ("cannot write to /proc", "-o")),
        (("compile", UPSCALE, "-t", "ethos-u55-128", "--config", "no.ini", "-o", "{tmp}/x.pte"), ("no.ini",)),
        (("compile", "{tmp}/bad.pt2", "-t", "ethos-u55-128", "-o", "{tmp}/x.pte"), ("bad.pt2", "save it again")),
        (("compile", "{tmp}/float.pt2", "-t", "ethos-u55-128", "-o", "{tmp}/x.pte"), ("float model", "quantize")),
        (("compile", "{tmp}/dynamic.pt2", "-t", "ethos-u55-128", "-o", "{tmp}/x.pte"), ("dynamic shapes",)),
        (("optimize", "{tmp}/none.tosa", "-t", "ethos-u55-128", "-o", "{tmp}/x.tosa"), ("none.tosa", "cannot read")),
        (("optimize", "{tmp}/bad", "-t", "ethos-u55-128", "-o", "{tmp}/x.tosa"), ("bad", "no TOSA flatbuffer")),
        (
            ("optimize", "{tmp}/bad", "-t", "ethos-u55-128", "-o", "{tmp}/x", "--rules", "fuse"),
            ("'fuse'", "fuse-concat"),
        ),
        (("optimize", "{tmp}/bad.pt2", "-t", "ethos-u55-128", "-o", "{tmp}/x.tosa"), ("bad.pt2", "`eqsat compile`")),
        (("optimize", UPSCALE, "-t", "ethos-u55-128", "-o", "{tmp}/x.tosa"), ("py:model", "`eqsat compile`")),
        (("bench", "--models", "first", "--models", UPSCALE, "--out", "{tmp}/run"), ("no model", "'first'")),
        (("compile", "x.tosa", "-t", "ethos-u55-128", "-o", "{tmp}/x.pte"), ("x.tosa", "`eqsat optimize`")),
        *(
            (("compile", f"{{tmp}}/own.py:{name}", "-t", "ethos-u55-128", "-o", "{tmp}/x.pte"), words)
            for name, words in (
                ("fails", ("own.py:fails failed: KeyError: 'gone'",)),
                ("ends", ("own.py:ends failed: SystemExit: 0",)),
                ("one", ("must return (module, example inputs)", "are a tuple")),
            )
        ),
        (("compile", "{tmp}/script.py:f", "-t", "ethos-u55-128", "-o", "{tmp}/x.pte"), ("script.py", "SystemExit: 0")),
    ],
)
def test_bad_input_is_one_line_that_names_it(tmp_path, args, words, monkeypatch):
    monkeypatch.setattr("sys.dont_write_bytecode", True)  # else Python keeps the user's modules compiled
    for name in ("bad", "bad.pt2"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 truncated")
    (tmp_path / "own.py").write_text(
        "import sys\nimport torch\ndef fails():\n    return {}['gone']\ndef ends():\n    sys.exit(0)\n"
        "def one():\n    return torch.nn.ReLU(), torch.ones(1, 3)\n"
    )
    (tmp_path / "script.py").write_text("raise SystemExit(0)\n")
    for name, shapes in (("float", None), ("dynamic", {"input": {0: torch.export.Dim("n", min=2, max=8)}})):
        if name in str(args):
            program = torch.export.export(torch.nn.Linear(3, 3), (torch.randn(2, 3),), dynamic_shapes=shapes)
            torch.export.save(program, tmp_path / f"{name}.pt2")
    before = sorted(tmp_path.iterdir())
    result = run(*(str(a).replace("{tmp}", str(tmp_path)) for a in args))
    assert result.exit_code == 2, result.output
    message = result.stderr.replace("\n", " ")
    assert message.startswith("error:") and all(w in message for w in words), message
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.slow
def test_a_disk_that_fails_costs_the_files_and_not_the_figures(tmp_path):
    """Every write of more than 100 bytes fails."""
    (tmp_path / "in.tosa").write_bytes(dumps(transposes(16)))
    (tmp_path / "out.tosa").write_bytes(b"precious")
    command = ("optimize", "in.tosa", "-t", "ethos-u85-256", "-o", "out.tosa", "--json", "--save", "run", "--effort=1")
    limit = resource.RLIMIT_FSIZE, (100, 100)
    done = python("-m", "eqsat.cli", *command, cwd=tmp_path, preexec_fn=lambda: resource.setrlimit(*limit))
    assert done.returncode == 3 and "error: cannot write out.tosa" in done.stderr
    assert (tmp_path / "out.tosa").read_bytes() == b"precious"
    record = json.loads(done.stdout)
    assert record["error"]["exit_code"] == 3 and "cannot write out.tosa" in record["error"]["message"]
    assert record["verified"] and 0 < record["cycles"]["eqsat"] < record["cycles"]["stock"]


def test_the_cache_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    with closing(PriceCache()) as cache:
        cache.put({"a": 1, "b": 2})
    info = json.loads(run("cache", "info", "--json").output)
    assert info["entries"] == 2 and info["path"].startswith(str(tmp_path)) and info["bytes"] > 0
    assert "2 prices and 0 results deleted" in run("cache", "clear").output
    assert "0 of at most" in run("cache", "info").output


def test_entries_of_a_kind_that_is_gone_are_kept_until_the_store_is_cleared(tmp_path: Path) -> None:
    """Earlier versions stored lowerings, and signed them with a key beside the store."""
    (tmp_path / "store.key").write_bytes(bytes(32))
    with closing(Store(tmp_path)) as store:
        store.put(Kind("lowering", 400), {"ab": bytes(100_000)})
        store.put(PRICES, {"a": bytes(8)})
    info = json.loads(run("cache", "info", "--json", "--cache", tmp_path).output)
    assert info["entries"] == 1 and info["answers"] == 0 and info["bytes"] > 100_000
    assert "1 prices and 0 results deleted" in run("cache", "clear", "--cache", tmp_path).output
    assert json.loads(run("cache", "info", "--json", "--cache", tmp_path).output)["bytes"] < 100_000
    assert (tmp_path / "store.key").exists(), "it may be a file of the user's"


#: Fields of `Options` that are for programs: a saturation's limits, and what --user-rules brings.
LEFT_OUT = {"budget", "rounds", "rules"}


def made(*arguments: str) -> Options:
    """The options that a command gets."""
    app, got = typer.Typer(), []

    @app.command()
    @takes_options
    def command(name: str, *, options: OptionsMaker) -> None:
        got.append((name, options()))

    done = CliRunner().invoke(app, ["x", *arguments])
    if isinstance(done.exception, InputError):
        raise done.exception
    assert done.exit_code == 0, done.output
    ((name, options),) = got
    assert name == "x"
    return options


def test_options_arrive_and_defaults_are_those_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert made() == Options()
    given = ("--rules", "none", "--time-limit", "3", "--extractor", "dag_greedy", "--max-flash", "5%")
    options = Options(preset="none", time_limit=3, extractor="dag_greedy", max_flash="5%", max_sram="+16K")
    assert made(*given, "--max-sram", "+16K") == options


def test_every_option_of_the_library_can_be_given() -> None:
    there = {"preset" if n == "rules" else n for n in OPTIONS} - {"user_rules"}
    assert there == {f.name for f in fields(Options)} - LEFT_OUT


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--rules", "nope", "no preset of rules is called 'nope'"),
        ("--max-sram", "64Q", "^--max-sram is '64Q'"),
        ("--max-flash", "64Q", "^--max-flash is '64Q'"),
    ],
)
def test_a_wrong_value_is_bad_input_and_the_option_is_called_as_it_was_typed(
    option: str, value: str, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        made(option, value)


@pytest.mark.parametrize(("command", "default", "times"), [("optimize", "by --effort", 3), ("bench", "zoo", 1)])
def test_help_says_what_decides_a_default(command: str, default: str, times: int) -> None:
    assert run(command, "--help", env={"COLUMNS": "200"}).output.count(f"[default: ({default})]") == times
