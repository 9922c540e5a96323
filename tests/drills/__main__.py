from __future__ import annotations

import argparse
import json
import signal
import tempfile
import time
from pathlib import Path

from eqsat.ground.versions import commit

# The modules of drills register them.
from tests.drills import DRILLS, ROOT, NotPossible, disk, files, interrupts, large, workers  # noqa: F401
from tests.drills.table import markdown


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.drills", description="Do harm, and see what comes of it.")
    parser.add_argument("--only", help="drills whose names contain this; others keep their records")
    parser.add_argument("--out", type=Path, help="directory for drills.json and drills.md")
    args = parser.parse_args()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background job ignores Ctrl-C, and so would the commands
    records, at = [], commit()
    for d in DRILLS.values():
        if args.only and args.only not in d.name:
            continue
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="eqsat-drill-") as place:
            try:
                passed, observed = d.run(Path(place))
            except NotPossible as e:
                passed, observed = None, f"not possible here: {e}"
            except Exception as e:  # noqa: BLE001 - a drill that breaks is one that failed
                passed, observed = False, f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"
            observed = observed.replace(place, "DIR").replace(f"{ROOT}/", "")
        records.append(
            {
                "drill": d.name,
                "commit": at,
                "done": d.done,
                "expected": d.expected,
                "observed": observed,
                "passed": passed,
                "seconds": round(time.monotonic() - started, 1),
            }
        )
        print(
            {True: "passed", False: "FAILED", None: "not possible"}[passed],
            d.name,
            "|",
            observed,
            f"({records[-1]['seconds']} s)",
            flush=True,
        )
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        if args.only and (args.out / "drills.json").exists():
            known = {r["drill"]: r for r in [*json.loads((args.out / "drills.json").read_text()), *records]}
            records = [known[name] for name in DRILLS if name in known]
        (args.out / "drills.json").write_text(json.dumps(records, indent=1) + "\n")
        (args.out / "drills.md").write_text(markdown(records))
    if any(r["passed"] is False for r in records):
        raise SystemExit(1)


main()
