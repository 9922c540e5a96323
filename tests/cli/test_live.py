"""What a user sees while a command works, and where it fails."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from rich.text import Text

import eqsat
from eqsat.cli.app import app
from eqsat.cli.common import causes
from eqsat.cli.live import TextConsole, visible
from eqsat.executorch.logs import LEVELS, speak
from eqsat.ground.files import InputError
from eqsat.options.options import Options
from eqsat.runs import save
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tosa import dumps
from tests.command import ROOT, UPSCALE, python, run
from tests.graphs import transposed_relus, transposes


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.tosa"
    path.write_bytes(dumps(transposes(16)))
    return path


def on_a_terminal(command: list[str], columns: int = 160) -> tuple[int, str]:
    """(exit code, all that a terminal gets)."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "eqsat.cli", *command],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": str(columns)},
    )
    os.close(theirs)
    pieces = list[bytes]()
    with contextlib.suppress(OSError):  # how Linux says that nobody is left who writes
        while piece := os.read(ours, 1 << 16):
            pieces.append(piece)
    return process.wait(), b"".join(pieces).decode()


@pytest.mark.slow
def test_a_terminal_gets_stages_and_nobody_elses_output(tmp_path: Path) -> None:
    arguments = ["-t", "ethos-u55-128", "-o", str(tmp_path / "m.pte"), "--effort", "0"]
    code, seen = on_a_terminal(["compile", UPSCALE, *arguments])
    assert code == 0, seen
    for ours in ("importing ExecuTorch", "quantizing", "forward/0 (1 of 1)", "best so far"):
        assert ours in seen
    for other in ("Network summary", "Info:", "Failed to load", "_pytree", "Warning"):
        assert other not in seen
    assert seen.rstrip().endswith("1 delegate(s))")


def test_a_narrow_terminal_gets_the_fewest_cycles_too(source: Path, tmp_path: Path) -> None:
    arguments = [str(source), "-t", "ethos-u85-256", "-o", str(tmp_path / "o"), "--effort", "0"]
    code, seen = on_a_terminal(["optimize", *arguments], columns=40)
    assert code == 0, seen
    words = " ".join(re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", seen).split())
    assert re.search(r"best so far [\d,]+ cycles", words), seen


def test_a_pipe_gets_plain_lines(source: Path, tmp_path: Path) -> None:
    result = run("optimize", source, "-t", "ethos-u85-256", "-o", tmp_path / "out.tosa", "--effort", 1)
    assert result.exit_code == 0, result.output
    lines = result.stderr.splitlines()
    assert lines and all(line.startswith(f"{source} for ethos-u85-256: ") and " cycles" in line for line in lines)
    assert "\x1b" not in result.stderr


def test_v_shows_what_is_logged_and_leaves_logging_as_it_was(source: Path, tmp_path: Path) -> None:
    """The title is no markup, and the seconds of stages are shown with -v alone."""
    logger, named = logging.getLogger("eqsat"), source.rename(tmp_path / "a[red]b.tosa")
    before = logger.level, logger.propagate, list(logger.handlers)
    for verbose in (False, True):
        result = run("optimize", named, "-t", "ethos-u85-256", "-o", tmp_path / "out", "--effort", 0, *["-v"] * verbose)
        assert result.exit_code == 0 and "a[red]b.tosa on ethos-u85-256" in result.stdout
        assert ("in all; by stage, some at once: " in result.stdout) == verbose
        assert bool(re.search(r"\[\d+\.\d s\] saturate: \d+ e-nodes, saturated\n", result.stderr)) == verbose
        assert ("verify" in result.stderr) == verbose
        assert (logger.level, logger.propagate, logger.handlers) == before


def test_a_users_code_that_fails_is_one_line(source: Path, tmp_path: Path) -> None:
    call = ("optimize", source, "-t", "ethos-u85-256", "-o", tmp_path / "out.tosa")
    result = run(*call, "--cost-model", "tests.planted_costs:Raises", "--json")
    assert result.exit_code == 2 and not (tmp_path / "out.tosa").exists()
    error = json.loads(result.stdout)["error"]
    assert error["exit_code"] == 2 and "planted_costs.py:" in error["message"]
    assert result.stderr.splitlines()[-1] == f"error: {error['message']}" and "File " not in result.stderr
    whole = run(*call, "--cost-model", "tests.planted_costs:Raises", "--debug").stderr
    assert "Traceback" in whole and "return 1 / (unit.result.bytes" in whole


def test_a_users_code_that_fails_deep_down_shows_its_own_frames(source: Path, tmp_path: Path) -> None:
    (tmp_path / "deep.py").write_text(
        "from cost_models.op_count import OpCount\n\n"
        "def looked_up(unit):\n    return {}[unit]\n\n"
        "class Deep(OpCount):\n    def cycles(self, unit):\n        return looked_up(unit)\n"
    )
    call = ("optimize", source, "-t", "ethos-u85-256", "-o", tmp_path / "out.tosa", "--cost-model")
    shown = run(*call, f"{tmp_path / 'deep.py'}:Deep").stderr
    frames = [line for line in shown.splitlines() if line.startswith('  File "')]
    assert len(frames) == 2 and all("deep.py" in f for f in frames) and "Traceback" not in shown


def test_json_has_a_schema_and_tells_of_failures(tmp_path: Path) -> None:
    for command in (("rules",), ("cache", "info")):
        assert json.loads(run(*command, "--json").stdout)["schema"] == 1
    result = run("compile", "none.pt2", "-t", "ethos-u55-128", "-o", tmp_path / "x.pte", "--json")
    assert json.loads(result.stdout) == {"schema": 1, "error": {"message": "none.pt2 does not exist", "exit_code": 2}}
    assert result.stderr == "error: none.pt2 does not exist\n"


def test_version_and_help() -> None:
    assert run("--version").stdout.startswith(f"eqsat {eqsat.__version__}\n")
    for command in ((), ("compile",), ("cache", "info")):
        assert run(*command, "-h").stdout == run(*command, "--help").stdout != ""
    assert "--debug" in run("compile", "-h").stdout and "--show-completion" in run("-h").stdout


#: Prints the exit code of a command, and which modules it has imported.
IMPORTS = """
import sys
from eqsat.cli.app import app
try:
    app(sys.argv[2:])
except SystemExit as e:
    code = e.code
print(code, sorted(set(sys.argv[1].split(",")) & set(sys.modules)))
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("compile", "none.py:model", "-t", "ethos-u55-128", "-o", "x.pte"),
        ("compile", UPSCALE, "-t", "ethos-u99", "-o", "x.pte"),
        ("optimize", "none.tosa", "-t", "ethos-u55-128", "-o", "x.tosa"),
    ],
)
def test_what_needs_no_work_imports_nothing_large(arguments: tuple[str, ...]) -> None:
    """Seconds depend on the machine; these modules are what takes them."""
    done = python("-c", IMPORTS, "torch,executorch,egglog,numpy,networkx,extraction", *arguments)
    assert done.stdout.splitlines()[-1] == f"{0 if arguments[0].startswith('-') else 2} []", done.stderr


@pytest.mark.slow
def test_a_tosa_file_is_optimized_without_pytorch(source: Path, tmp_path: Path) -> None:
    asked = ("optimize", source, "-t", "ethos-u85-256", "-o", tmp_path / "out", "--effort", 1)
    done = python("-c", IMPORTS, "torch,executorch", *asked)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr
    assert (tmp_path / "out").exists()


def test_the_deepest_cause_comes_first_and_whole() -> None:
    reason = "Unsupported input dtype torch.bool\n" + "and a lot more " * 40
    error = RuntimeError("An error occurred when running the pass " + "x" * 400)
    error.__cause__ = ValueError(reason)
    text = causes(error)
    assert text.startswith(f"ValueError: {reason.strip()}\n  which led to RuntimeError: An error occurred")
    assert len(text.splitlines()[-1]) < 260


LOWERS = """
import sys
from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
from executorch.exir import to_edge_transform_and_lower
from eqsat.executorch.loading import quantize
from tests.cli.upscale import model

spec = EthosUCompileSpec(sys.argv[1])
edge = to_edge_transform_and_lower(quantize(*model(), spec), partitioner=[EthosUPartitioner(spec)])
print(len(edge.to_executorch().buffer))
"""


def test_a_script_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = python("-m", "eqsat.cli", "exec", "none.py", cwd=tmp_path)
    assert done.returncode == 2 and "none.py does not exist" in done.stderr


@pytest.mark.slow
def test_a_script_has_its_arguments_and_its_folder(here: Path) -> None:
    (here / "beside.py").write_text("WORD = 'beside'")
    (here / "s.py").write_text("import sys, beside\nprint(beside.WORD, *sys.argv[1:])\nsys.exit(7)")
    done = run("exec", "--effort", "1", "s.py", "--effort", "x")
    assert done.stdout == "beside --effort x\n" and done.exit_code == 7
    of_module = run("exec", "-m", "s", "y")
    assert of_module.stdout == "beside y\n" and of_module.exit_code == 7


@pytest.mark.slow
def test_a_script_that_fails_is_told_as_python_tells_it(here: Path) -> None:
    (here / "s.py").write_text("def f():\n    return 1 / 0\n\nf()")
    done = run("exec", "s.py")
    assert done.exit_code == 1 and "eqsat/cli" not in done.stderr
    assert done.stderr.rstrip().endswith("ZeroDivisionError: division by zero") and "line 2, in f" in done.stderr


@pytest.mark.slow
def test_delegates_are_told_a_line_each(here: Path) -> None:
    (here / "lowers.py").write_text(LOWERS)
    done = run("exec", "--effort", "1", "lowers.py", "ethos-u85-256")
    told = [line for line in done.stderr.splitlines() if line.startswith("eqsat: ")]
    assert len(told) == 1 and "cycles (-" in told[0] and "bit-exact, proved" in told[0]
    assert int(done.stdout.split()[-1]) > 0


@pytest.mark.parametrize("asked", LEVELS)
def test_what_eqsat_says_can_be_chosen(asked: str) -> None:
    code = (
        "import logging; from eqsat.executorch.logs import *; speak(); results.info('told'); "
        "logging.getLogger('eqsat.x').info('done'); logging.getLogger('eqsat.x').debug('tried')"
    )
    done = python("-c", code, env={"EQSAT_LOG": asked})
    expected = {"off": [], "result": ["told"], "info": ["told", "done"], "debug": ["told", "done", "tried"]}
    assert [line.split()[-1] for line in done.stderr.splitlines()] == expected[asked] and not done.stdout


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_record_is_shown_once_where_the_root_logger_shows_records_too(elsewhere: bool, tmp_path: Path) -> None:
    """ExecuTorch's Arm backend gives the root logger a handler; one that writes to a file keeps its records."""
    code = """import logging, sys
from eqsat.executorch.logs import speak
logging.basicConfig(**{"filename": name for name in sys.argv[1:]})
speak()
logging.getLogger("eqsat.search").info("done")"""
    file = tmp_path / "log"
    done = python("-c", code, *[file] * elsewhere, env={"EQSAT_LOG": "info"})
    assert done.stderr.count("done") == 1 and done.returncode == 0
    assert not elsewhere or file.read_text().count("done") == 1


def test_another_word_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_LOG", "loud")
    with pytest.raises(InputError, match="EQSAT_LOG is 'loud': it may be off, result, info, debug"):
        speak()


NAME = "a[red]b\x1b[31m\x1b]0;title\x07\x9b1m.tosa"


def test_control_characters_are_spelled_out() -> None:
    assert visible(NAME) == "a[red]b\\x1b[31m\\x1b]0;title\\x07\\x9b1m.tosa"
    assert visible("lines\nand\ttabs and ümläute") == "lines\nand\ttabs and ümläute"


def test_a_console_has_its_own_colours_only() -> None:
    stream = io.StringIO()
    console = TextConsole(file=stream, force_terminal=True, color_system="standard")
    console.print("[red]error:[/red]", Text(f"cannot read {NAME}"), soft_wrap=True, highlight=False)
    assert stream.getvalue().startswith("\x1b[31merror:\x1b[0m cannot read a[red]b\\x1b[31m")
    assert stream.getvalue().count("\x1b") == 2


@pytest.mark.parametrize("terminal", [False, True])
def test_text_is_broken_on_a_terminal_alone(terminal: bool) -> None:
    stream = io.StringIO()
    console = TextConsole(file=stream, force_terminal=terminal, width=20, color_system=None)
    console.print("warning:", Text("does not fit"), "into this")
    assert (stream.getvalue() == "warning: does not fit into this\n") is not terminal


def test_a_name_is_shown_as_text_in_an_error_and_out_of_a_saved_run(tmp_path: Path) -> None:
    failed = run("prove", tmp_path / NAME, "b.tosa")
    assert failed.exit_code == 2 and "a[red]b\\x1b[31m" in failed.output and "\x1b" not in failed.output
    options = Options(effort=1, remember=False)
    result = optimize_tosa(dumps(transposed_relus()), Target.of("ethos-u85-256"), options=options, name=NAME)
    save(result, tmp_path / "run")
    done = run("explain", tmp_path / "run", "--no-removals")
    assert done.exit_code == 0 and "\x1b" not in done.output and "\x07" not in done.output
    assert done.output.startswith("a[red]b\\x1b[31m\\x1b]0;title")


def test_help_begins_with_compile_and_shows_types_of_values_alone() -> None:
    shown = run("--help").output
    assert -1 < shown.index("compile ") < shown.index("optimize ") < shown.index("bench ")
    shown += run("compile", "--help").output + run("cache", "-h").output
    assert "<path>" in shown and "<bool>" not in shown
    helps = [run(c, "--help").output for c in typer.main.get_command(app).commands]
    assert not any("range>" in text for text in helps)
