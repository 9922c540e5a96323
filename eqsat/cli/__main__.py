"""`eqsat`, and `python -m eqsat.cli`."""

import gc
import signal

#: Objects allocated between two garbage collections; Python's default is 700.
_OBJECTS_BETWEEN_COLLECTIONS = 50_000


def main() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # while there is nothing to clean up yet, the process just ends
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    from eqsat.cli.app import app

    try:
        app()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is done, and the exit code says how


if __name__ == "__main__":
    main()
