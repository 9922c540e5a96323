"""`eqsat`, and `python -m eqsat.cli`."""

import os
import signal
import sys


def main() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # while there is nothing to clean up yet, the process just ends
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # closed: the next file that is opened would take its place
            setattr(sys, name, open(os.devnull, "w" if number else "r"))  # noqa: SIM115 - until the process ends
    from eqsat.ground.garbage import collect_rarely

    collect_rarely()
    from eqsat.cli.app import app

    try:
        app()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is done, and the exit code says how


if __name__ == "__main__":
    main()
