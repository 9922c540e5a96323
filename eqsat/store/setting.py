"""The place of the store, one setting: `EQSAT_CACHE`, `--cache` or `Options(cache=...)`.

DIRECTORY, or FILE.sqlite       on this machine
URL                             a shared store of fsspec besides the user's own: file://, https://, s3://, ...
DIRECTORY,URL                   both
DIRECTORY,read-only:URL         the shared store is never written to
"""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from eqsat.ground.files import InputError, is_special

#: The environment variable of the setting.
VARIABLE = "EQSAT_CACHE"
#: The prefix of a URL to which nothing is written.
_READ_ONLY = "read-only:"
#: The name of the store in a directory.
_FILE = "store.sqlite"
#: The suffix of a place that is a file.
_SUFFIX = ".sqlite"
#: The first bytes of every SQLite database that is not empty (sqlite.org/fileformat.html).
_MAGIC = b"SQLite format 3\0"


#: The table of a store, and its columns.
TABLE, COLUMNS = "entries", ("key", "value", "mark", "used")
#: Bytes of a damaged database in which definitions of tables are looked for.
_HEAD = 1 << 16
_OTHER_TABLE = re.compile(rb"create (virtual )?table (?!entries\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Setting:
    """The places of the store.

    file: the store on this machine
    url : the shared store, "" if there is none
    """

    file: Path
    url: str = ""
    read_only: bool = False

    @staticmethod
    def of(text: str | Path | None = None) -> Setting:
        """Returns the setting that `text`, else the environment describes, else the user's cache directory.

        Raises InputError for a text that is no setting.
        """
        given = str(text or os.environ.get(VARIABLE) or "")
        local: list[str] = []
        shared: list[str] = []
        for part in filter(None, (p.strip() for p in given.split(","))):
            (shared if "://" in part else local).append(part)
        if len(local) > 1 or len(shared) > 1 or any(p.startswith(_READ_ONLY) for p in local):
            raise InputError(
                f"the cache {given!r} is no place: give a directory, a URL or read-only:URL, or DIRECTORY,URL"
            )
        place = Path(local[0]).expanduser() if local else Path(platformdirs.user_cache_dir("eqsat"))
        file = place if place.suffix == _SUFFIX else place / _FILE
        url = shared[0] if shared else ""
        return Setting(file, url.removeprefix(_READ_ONLY), url.startswith(_READ_ONLY))

    def check(self) -> None:
        """Raises InputError unless the file is a store, or absent, and the URL's protocol is known."""
        check_file(self.file)
        if self.url:
            import fsspec

            scheme = self.url.partition("://")[0]
            try:
                fsspec.get_filesystem_class(scheme)
            except ValueError as e:
                raise InputError(
                    f"the cache {self.url}: {scheme}:// is unknown: give file://, https:// or s3://"
                ) from e
            except ImportError as e:
                raise InputError(f"the cache {self.url}: {e}; pip install 'fsspec[{scheme}]'") from e


def check_file(path: Path) -> None:
    """Raises InputError for a file that is something else, such as a pipe or a database with tables of others."""
    with suppress(OSError):
        special = [p for p in (path, *path.parents) if is_special(p)]  # to open a pipe waits for its other end
        if special or _is_another(path):
            place = special[0] if special else path
            raise InputError(f"{place} is no store of eqsat: choose another place for the cache, or remove it")


def _is_another(path: Path) -> bool:
    """Whether a file is something else than a store. Raises OSError."""
    with path.open("rb") as f:
        head = f.read(_HEAD)
    return bool(head) and (not head.startswith(_MAGIC) or _has_others(path, head))


def _has_others(path: Path, head: bytes) -> bool:
    """Whether a database has something in it that is not a store's; head: its first bytes, for a damaged one."""
    # immutable: no lock is taken, and no file made beside it
    uri = f"{path.resolve().as_uri()}?immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as db:
            db.execute("pragma trusted_schema=off")
            names = {
                name
                for (name,) in db.execute("select name from sqlite_master where name not like 'sqlite@_%' escape '@'")
            }
            columns = tuple(name for (name,) in db.execute("select name from pragma_table_info(?)", (TABLE,)))
    except (sqlite3.Error, UnicodeDecodeError):
        return bool(_OTHER_TABLE.search(head))
    return not names <= {TABLE} or columns not in ((), COLUMNS)
