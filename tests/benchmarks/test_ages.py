"""Records are of commits that exist, pages quote the commit of their record, and a release has results of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from benchmarks.ages import MEASURES, OF_RELEASE, RESULTS, ROOT, age, ages, commits, files, misquoted, unfit
from eqsat import __version__


def git(place: Path, *command: str) -> str:
    done = subprocess.run(["git", *command], cwd=place, capture_output=True, text=True)
    return done.stdout.strip() if not done.returncode else ""


#: The history is there: neither an sdist nor a shallow clone.
history = pytest.mark.skipif(
    git(ROOT, "rev-parse", "--show-toplevel", "--is-shallow-repository") != f"{ROOT}\nfalse",
    reason="no clone with its history",
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_record_says_what_it_measures() -> None:
    kept = [f for f in (ROOT / RESULTS).rglob("*.json*") if "report" not in f.parts and f.suffix != ".xz"]
    assert sorted(f for name in MEASURES for f in files(name) if f.suffix != ".xz") == sorted(kept)
    assert [p for places in MEASURES.values() for p in places if not (ROOT / p).exists()] == []


@history
def test_this_version_can_have_its_records() -> None:
    """A release: renew those that are listed, see docs/development/release.md."""
    assert unfit(__version__) == []


@history
def test_pages_quote_the_commit_of_the_record() -> None:
    assert {page.name: wrong for page in PAGES if (wrong := misquoted(page.read_text()))} == {}


def test_a_report_is_of_its_records() -> None:
    for report in sorted((ROOT / RESULTS).glob("*/report/report.md")):
        named = [line for line in report.read_text().splitlines() if line.startswith("* Commit ")]
        assert [{line.split()[2].rstrip(".")} for line in named] == [commits(report.parts[-3])], report


@history
def test_a_wrong_quote_is_noticed() -> None:
    (networks,), (counts,) = commits("calibrated"), commits("transpose_counts")
    assert f"({networks[:7]}, `{RESULTS}/calibrated`" in (ROOT / "docs" / "proofs.md").read_text()
    assert misquoted(f"({networks[:7]}, `{RESULTS}/calibrated`,\n`{RESULTS}/transpose_counts`)") == [
        f"{networks[:7]}, transpose_counts"
    ]
    assert misquoted(f"{counts[:7]}, `{RESULTS}/calibrated`; at 0ff1ce0") == [f"{counts[:7]}, calibrated", "0ff1ce0"]


def commit(place: Path, **texts: str) -> str:
    for name, text in texts.items():
        (place / name).mkdir(exist_ok=True)
        (place / name / "code.py").write_text(text)
    git(place, "add", ".")
    git(place, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "change")
    return git(place, "rev-parse", "HEAD")


def test_a_release_has_results_of_its_own_code(tmp_path: Path) -> None:
    measures = {OF_RELEASE: ["one"], "other": ["two"]}
    git(tmp_path, "init", "--quiet")
    first = commit(tmp_path, one="x = 1\n", two="y = 1\n")
    for name in measures:
        (tmp_path / RESULTS / name).mkdir(parents=True)
        (tmp_path / RESULTS / name / "run.json").write_text(json.dumps({"commit": first[:12]}))

    def found(version: str = "1.0") -> tuple[dict[str, int | None], list[str]]:
        return ages(tmp_path, measures), unfit(version, tmp_path, measures)

    commit(tmp_path, one='"""Says what it is."""\nx = 1  # one\n')
    assert found() == ({OF_RELEASE: 0, "other": 0}, [])
    commit(tmp_path, one="x = 2\n")
    commit(tmp_path, one="x = 3\n", two="y = 2\n")
    assert found() == ({OF_RELEASE: 3, "other": 1}, [OF_RELEASE])
    assert found("1.1.dev0")[1] == []
    commit(tmp_path, one="x = 1\n", three="")
    assert found() == ({OF_RELEASE: 0, "other": 1}, [])


def test_the_version_itself_is_no_change(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "eqsat/ground").mkdir(parents=True)
    version = tmp_path / "eqsat/ground/_version.py"
    version.write_text('__version__ = "1.dev0"\n')
    first = commit(tmp_path, **{"eqsat/ground": "x = 1\n"})
    version.write_text('__version__ = "1"\n')
    commit(tmp_path)
    assert age(first, ["eqsat"], tmp_path) == 0
    commit(tmp_path, **{"eqsat/ground": "x = 2\n"})
    assert age(first, ["eqsat"], tmp_path) == 1


def test_records_name_a_commit_of_the_history(tmp_path: Path) -> None:
    measures = {OF_RELEASE: ["one"]}
    git(tmp_path, "init", "--quiet")
    first = commit(tmp_path, one="x = 1\n")
    (tmp_path / RESULTS / OF_RELEASE).mkdir(parents=True)
    run, lines = tmp_path / RESULTS / OF_RELEASE / "run.json", tmp_path / RESULTS / OF_RELEASE / "records.jsonl"
    lines.write_text('{"model": "a"}\n')
    for named, good in (("0ff1ce0", False), (f"{first[:12]}-dirty", False), (first, True)):
        run.write_text(json.dumps({"commit": named}))
        assert unfit("1.dev0", tmp_path, measures) == ([] if good else [OF_RELEASE])
        assert unfit("1", tmp_path, measures) == ([] if good else [OF_RELEASE])
    lines.write_text('{"model": "a", "commit": "0ff1ce0"}\n')
    assert unfit("1.dev0", tmp_path, measures) == [OF_RELEASE]
