"""Stock at its best: in the settings of Vela and the layouts of inputs and outputs that an expert would try."""

from __future__ import annotations

from eqsat.bench.cells import RANKED_BY
from eqsat.bench.lowering import prepare, quiet
from eqsat.bench.measure import Fields
from eqsat.bench.measure import measure as measured
from eqsat.executorch.loading import AS_GIVEN, Layout, layouts_to_try


def measure(
    name: str, flags: list[str], files: dict[str, bytes], side: Fields, source: tuple[str, str, str]
) -> tuple[Fields, dict[str, bytes], list[list[Fields]]]:
    """Measures a model like `measure.measure`, in the verified layout with the least RANKED_BY.

    files, side: what `lowering` returned for the model as it is. source: reference, target and quantization.
    The record also has the `layout`, and the figures of all `layouts`, None if one fails or leaves more to the CPU.
    Raises the first error if no layout can be measured.
    """
    if source[0].endswith(".tosa"):
        files = {**files, "0.stock": files["0.explicit"]}
    found, errors = {}, list[Exception]()
    layouts: dict[str, Layout | None] = {AS_GIVEN: None, **quiet()(layouts_to_try)(source[0])}
    for called, layout in layouts.items():
        try:
            lowered = (files, side) if layout is None else prepare(*source, layout)
            if lowered[1]["operators_outside"] <= side["operators_outside"]:
                found[called] = measured(name, flags, *lowered)
        except Exception as e:  # noqa: BLE001 - ExecuTorch and Vela refuse a layout in many ways
            errors.append(e)
    if not found:
        raise errors[0]
    figures = {called: fields[RANKED_BY] for called, (fields, _, _) in found.items()}
    best = min(found, key=lambda called: (not found[called][0]["verified"], figures[called]))
    fields, tosas, rows = found[best]
    return {**fields, "layout": best, "layouts": {called: figures.get(called) for called in layouts}}, tosas, rows
