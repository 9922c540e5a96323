"""The zoo benchmark, on its smallest cell."""
import json

from benchmarks.zoo import main, table


def test_a_cell_is_run_once_and_resumed(tmp_path, capsys):
    args = ["--models", "pixel_shuffle", "--targets", "ethos-u85-256", "--out", str(tmp_path)]
    main(args)
    (record,) = map(json.loads, (tmp_path / "records.jsonl").read_text().splitlines())
    assert record["verified"] and record["cycles"]["eqsat"] < record["cycles"]["stock"]
    assert "pixel_shuffle" in (tmp_path / "table.md").read_text()
    capsys.readouterr()
    main(args)                                           # nothing left to do: only the table is printed
    assert "{" not in capsys.readouterr().out


def test_a_failed_cell_is_a_row(tmp_path):
    main(["--models", "nothing_of_the_kind", "--targets", "ethos-u85-256", "--out", str(tmp_path)])
    (record,) = map(json.loads, (tmp_path / "records.jsonl").read_text().splitlines())
    assert "cannot import" in record["error"]
    assert "nothing_of_the_kind" in table([record])
