"""The fields of a cell's record and of run.json, and the form of their values.

Reports compute with what a file says, so a value of another form is refused where records are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eqsat.ground.files import InputError, is_file_name

#: Characters of a value that an error quotes.
_QUOTED = 60
#: Numbers beyond it are no figures of a compilation.
_LARGEST = 2**63
#: Bytes of a model's and a target's name together: pages of a report have names of both.
_NAMES = 200


@dataclass(frozen=True, slots=True)
class Form:
    """The values that a field may have.

    name: of such a value, in errors.
    """

    name: str
    accepts: Callable[[Any], bool]

    def or_none(self) -> Form:
        return Form(f"{self.name} or null", lambda x: x is None or self.accepts(x))


def _is_number(x: Any) -> bool:
    return type(x) in (int, float) and 0 <= x < _LARGEST  # a NaN is neither


def _is_text(x: Any) -> bool:
    return isinstance(x, str) and not any("\ud800" <= c <= "\udfff" for c in x)  # no file can have these


_NAME = Form("a plain file name", lambda x: is_file_name(x) and x.isprintable())
_TEXT = Form("a string", _is_text)
_TRUTH = Form("true or false", lambda x: isinstance(x, bool))
_NUMBER = Form("a number from 0 on", _is_number)
_COUNT = Form("a whole number from 0 on", lambda x: type(x) is int and _is_number(x))


def _list(of: Form) -> Form:
    return Form(f"a list, each {of.name}", lambda x: isinstance(x, list) and all(map(of.accepts, x)))


def _table(of: Form) -> Form:
    return Form(
        f"an object, each value {of.name}",
        lambda x: isinstance(x, dict) and all(map(_is_text, x)) and all(map(of.accepts, x.values())),
    )


def _object(required: Mapping[str, Form], optional: Mapping[str, Form] | None = None) -> Form:
    """Returns an object with the required fields; those of neither may have any value."""
    forms = {**required, **(optional or {})}

    def accepts(x: Any) -> bool:
        return (
            isinstance(x, dict)
            and all(name in x for name in required)
            and all(form.accepts(x[name]) for name, form in forms.items() if name in x)
        )

    return Form("an object" + (f" with the right {', '.join(required)}" if required else ""), accepts)


_OPERATOR = _object(
    {"operators": _COUNT, "cycles": _COUNT}, {"ideal": _NUMBER, "waiting": _NUMBER, "mac_cycles": _NUMBER}
)
_PRICES = _object({"cycles": _COUNT, "commands": _COUNT})
_CHOICE = _object({"round": _COUNT, "predicted": _NUMBER, "cycles": _NUMBER}, {"extractor": _TEXT})
_VERDICTS, _TEXTS = _list(_TRUTH.or_none()), _list(_TEXT)

#: Fields of every record.
_PLACE = {"model": _NAME, "target": _NAME, "configuration": _TEXT}
#: Further ones of every record with figures.
_FIGURES = {
    "cycles": _COUNT,
    "by_kind": _table(_NUMBER),
    "by_operator": _table(_OPERATOR),
    "seconds": _table(_NUMBER),
    "verified": _TRUTH.or_none(),
    "memory": _table(_object({"peak": _COUNT}, {"read": _COUNT, "written": _COUNT})),
    "peak_mib": _NUMBER,
}
#: Fields that some records with figures have and that reports read.
_OPTIONAL = {
    "vela": _TEXT,
    "key": _TEXT,
    "corrected": _COUNT,
    "calibrated": _COUNT,
    "calibrated_ends": _list(_list(_COUNT)),
    **dict.fromkeys(("weight_bytes", "encoded_weight_bytes", "command_bytes", "tflite_bytes"), _COUNT),
    **dict.fromkeys(("e_nodes", "cpu_operators"), _COUNT),
    "pte_bytes": _COUNT.or_none(),
    **dict.fromkeys(("max_difference", "gap"), _NUMBER.or_none()),
    "proved": _TRUTH.or_none(),
    "bound": _object({"roofline": _NUMBER, "operators": _NUMBER, "mac_cycles": _NUMBER}),
    **dict.fromkeys(("stop", "chosen"), _TEXTS),
    **dict.fromkeys(("binary_verified", "binary_proved", "stock_binary_verified"), _VERDICTS),
    "extractions": _list(_list(_CHOICE)),
    "command_stream": _object({"stock": _PRICES.or_none(), "eqsat": _PRICES.or_none()}),
}

#: Fields of run.json on the machine, which a report tells together with the versions.
_MACHINE = {"processors": _COUNT.or_none(), "memory_mib": _COUNT, "jobs": _COUNT, "cold": _TRUTH}
#: Further ones.
_ABOUT = {
    "versions": _table(_TEXT),
    **dict.fromkeys(("commit", "date", "quantization"), _TEXT),
    **dict.fromkeys(("names", "models", "targets", "configurations"), _TEXTS),
}


def check_fields(record: Mapping[str, Any]) -> None:
    """Raises InputError with the name of a field that is missing or has a value of another form.

    Fields that are not known may have any value.
    """
    required = {**_PLACE, **({"error": _TEXT} if "error" in record else _FIGURES)}
    _check(record, required, {} if "error" in record else _OPTIONAL)
    if len((record["model"] + record["target"]).encode(errors="replace")) > _NAMES:
        longer = max(("model", "target"), key=lambda name: len(record[name]))
        raise InputError(f"{longer!r} is {_quoted(record[longer])}, too long for the name of a file")


def check_about(about: object) -> None:
    """Raises InputError for the content of a run.json as `check_fields` does for a record."""
    if not isinstance(about, dict):
        raise InputError(f"is {_quoted(about)}, which is not an object")
    _check(about, _MACHINE if "versions" in about else {}, {**_MACHINE, **_ABOUT})


def _check(record: Mapping[str, Any], required: Mapping[str, Form], optional: Mapping[str, Form]) -> None:
    for name, form in {**optional, **required}.items():
        if name not in record and name in required:
            raise InputError(f"has no {name!r}")
        if name in record and not form.accepts(record[name]):
            raise InputError(f"{name!r} is {_quoted(record[name])}, which is not {form.name}")


def _quoted(value: Any) -> str:
    """Returns the value as JSON, cut where it is long."""
    text = json.dumps(value)
    return text if len(text) <= _QUOTED else f"{text[: _QUOTED - 3]}..."
