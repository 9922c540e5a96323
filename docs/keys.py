"""The keys of the JSON object that `eqsat compile` and `eqsat optimize` print, each with its meaning.

Keys of objects within it that are fields of a record mean what the docstring of that record says.
`docs/json.md` shows the tables, and a test compares them with what both commands print.
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import Any

_SIDES = "as an object with `stock` (of `eqsat optimize`: the graph of the file) and `eqsat`"
_EACH_SIDE = "of `eqsat compile`: an object with `stock` and `eqsat`"
#: Keys of both commands.
BOTH = {
    "schema": "1, the version of this format",
    "model": "the model or file, as given",
    "target": "the accelerator configuration",
    "configuration": "`system_config`, `memory_mode` and `config` (the `.ini` file) of Vela",
    "options": "every option that affected the result, also those that were not given",
    "vela": "the version of Vela",
    "calibrated": f"calibrated cycles, by which graphs are ranked, {_SIDES}",
    "cycles": f"Vela's total, {_SIDES}",
    "corrected": "the same as `cycles`; the key remains from earlier versions",
    "milliseconds": f"the calibrated cycles at the NPU's clock; {_EACH_SIDE}",
    "by_kind": f"Vela's cycles by kind of operator; {_EACH_SIDE}",
    "command_stream": "the price of the commands of `stock` and `eqsat`; null where that is not known",
    "bound": "the fewest cycles that the input needs",
    "fits": "whether the result is within the memory limits",
    "verified": "whether the result equals the input to the bit, by a proof or on samples",
    "proved": "whether the result is proved equal to the input for every input value",
    "undecided": "the operators at which a proof ended, and why; then samples were compared",
    "error_bound": "the highest probability that `proved` is wrong",
    "coverage": "the share of operators that rules can rewrite",
    "interrupted": "whether Ctrl-C ended the search early",
    "warnings": "the text of each warning",
    "seconds": "wall-clock seconds by stage",
}
#: Keys of both commands, of which `eqsat compile` prints a list with an entry per delegate.
EACH = {
    "chosen": "the graph that is used: `eqsat`, `stock` or `explicit` (the unchanged input)",
    "settings": "the settings of Vela, besides those of the target, with which the result is compiled",
    "kept": 'why nothing was gained, and which graph is used then; "" if something was gained',
    "channel_steps": "numbers of channels for which the model should have slightly fewer channels",
    "passed_over": 'the gain of the fastest graph that exceeds the memory limits; "" if there is none',
    "nearest": "if the result does not fit: the figures of the graph that exceeds the limits least, else null",
    "points": "the Pareto set of all compiled graphs, by cycles",
    "remembered": "whether the result is that of the same search before, verified again",
    "respelled": "whether the choice is that of the same graph with other constants, verified with these",
    "stock_verified": "`verified` of stock's graph; null if it could not be compared",
    "stock_proved": "`proved` of stock's graph; null if that was not tried",
    "binary_verified": "whether the NPU's commands compute what the input does; null if they were not run to the end",
    "binary_proved": "true if the commands are proved to do so for every input, else null",
    "binary_undecided": "the commands at which that proof ended, or why there is none",
    "stock_binary_verified": "`binary_verified` of stock's graph",
    "stock_binary_proved": "`binary_proved` if the result is stock's graph, else null",
    "stock_binary_undecided": "`binary_undecided` if the result is stock's graph",
}
#: Keys of `eqsat compile` alone.
COMPILE = {
    "delegates": "the number of delegates",
    "by_delegate": "name, figures, graph, Vela's table and error of each delegate",
    "stepped_back": "the number of delegates that are stock's because eqsat failed or found no alternative",
    "cpu_operators": "the operators outside all delegates, with their numbers",
    "left": "the operators that the partitioner left on the CPU",
    "layout": "the layout of inputs and outputs",
    "layouts": "the calibrated cycles in each layout that was tried; null for a layout that was rejected",
    "border_transposes": "transposes at inputs and outputs of delegates; null if they take no cycles",
    "calibration": "the data on which the quantization of the model was calibrated",
    "memory": "bytes of memory as in `footprint`, with `stock` and `eqsat`",
    "pte_bytes": "the size of the `.pte`",
    "stock_pte_bytes": "the size of the `.pte` that stock ExecuTorch makes",
    "binary_reasons": "for each delegate why its commands did not run, or where they differ",
    "deviations": "always null for each delegate; the key remains from earlier versions",
}
_FIGURES = ("cycles", "corrected", "calibrated", "by_kind", "footprint", "milliseconds")
#: Keys of `eqsat optimize` alone.
OPTIMIZE = {
    "change": "the ratio of calibrated cycles to those of the graph of the file",
    "footprint": "bytes of memory of the result",
    "limits": "the memory that the result may need",
    "table": "Vela's table of the result, with a row per operator",
    "opaque": "how many operators of each kind no rule can rewrite",
    "searched": "whether extraction gave a graph that Vela accepts; if not, the exit code is 4",
    "e_nodes": "the number of e-nodes",
    "stop": "why the saturation ended",
    "candidates": "how many graphs were compared",
    "extractions": "the choices that were compiled as whole graphs",
    "binary_reason": "why the commands did not run, or where they differ",
    "binary_samples": "on how many samples the commands were compared",
    "tosa": "the size of the result",
    "explicit": "the size of the input",
    "referee": "always `calibrated`: the cycles by which graphs are ranked",
    **dict.fromkeys(("deviation", "raw", "run"), "always null; the key remains from earlier versions"),
    **{f"explicit_{figure}": f"`{figure}` of the graph in the file" for figure in _FIGURES},
    **{f"stock_{figure}": f"the same as `explicit_{figure}`, or null" for figure in _FIGURES},
}
#: Keys of objects within it that are no fields, or are more than their fields.
_OWN_NESTED: dict[str, dict[str, str]] = {
    "table": {
        "op_cycles": "cycles as Vela counts them, as text",
        "npu_cycles": "cycles as Vela counts them, without those of memory, as text",
        "corrected": "the same as `op_cycles`, as a number",
        "busy_cycles": "cycles in which the operator computes or writes",
        "sram_bytes": "bytes of SRAM in use while the operator runs",
        "weight_bytes": "bytes of its encoded weights, without scales",
        "command_bytes": "bytes of its commands",
        "calibrated": "calibrated cycles of its commands",
        "mac_count": "the number of MACs, as text",
        "operator": "Vela's name of the operator",
        "name": "Vela's name of its result",
        "mac_cycles": "cycles of the MACs at the full rate",
        "ideal": "the cycles of the MACs at the full rate, or of reading the weights, whichever is larger",
        "waiting": "cycles in which memory keeps the operator waiting",
        "origins": "the PyTorch operators behind it: `node`, `module`, `kind` and debug `handle`",
    },
    "options": {
        "preset": "the preset of rules (`--rules`)",
        "extractor": "the extractor",
        "cost_model": "the cost model",
        "budget": "limits of the saturation: `nodes`, `seconds`, `passes` and `matches`",
        "max_sram": "the limit of SRAM, as `--max-sram` takes it",
        "max_flash": "the limit of flash, as `--max-flash` takes it",
        "objective": "`cycles`, `sram` or `pareto`",
        "effort": "0 to 2",
    },
    "bound": {"operators": "a tighter bound on cycles: of each operator the larger of MACs and weights, added up"},
    "command_stream": {"cycles": "calibrated cycles", "by_kind": "`commands` and `cycles` of each kind of command"},
    "footprint": {"memory": 'for each memory bytes in use at once ("peak"), "read" and "written"'},
    "nearest": {"cycles": "calibrated cycles"},
    "points": {
        "cycles": "calibrated cycles",
        "vela_total": "Vela's total",
        "settings": "the settings of Vela, besides those of the target",
    },
    "limits": {"sram": "bytes of SRAM", "flash": "bytes of commands and weights"},
    "left": {
        "name": "the operator",
        "number": "how many there are",
        "reason": 'why; "" if the partitioner does not say',
    },
    "channel_steps": {
        "channels": "the number of channels",
        "fewer": "the multiple of 16 below it",
        "convolutions": "how many convolutions read or write as many channels",
        "cycles": "estimated calibrated cycles that all of them would save with fewer channels",
    },
    "border_transposes": {"number": "how many there are", "cycles": "calibrated cycles of all of them"},
    "change": {
        "value": "the ratio",
        "within": "how far it may be off, as a share of 1; null if that is not known",
    },
    "by_delegate": {
        "name": "its name, such as `forward/0`",
        "cycles": "Vela's total of the graph that is used",
        "corrected": "the same as `cycles`",
        "calibrated": "calibrated cycles",
        "stock_cycles": "Vela's total of stock's graph",
        "stock_corrected": "the same as `stock_cycles`",
        "stock_calibrated": "calibrated cycles of stock's graph",
        "change": "as the key `change`",
        "chosen": "as the key `chosen`",
        "error": 'why eqsat fell back to stock\'s graph; "" if it did not',
        "table": "as the key `table`",
        "text": "the line that a terminal shows",
    },
}


def _records() -> dict[str, tuple[type, ...]]:
    """Returns {key: the records whose fields its object has}."""
    from cost_models.command_stream import Ratio, StreamPrice
    from eqsat.executorch.loading import BorderTransposes
    from eqsat.executorch.session import LeftOperator
    from eqsat.options.decision import Figures, MemoryLimits
    from eqsat.options.options import Options
    from eqsat.search.channels import ChannelStep
    from eqsat.search.result import Extracted, Point
    from eqsat.vela.compile import Footprint
    from eqsat.vela.roofline import Bound
    from eqsat.vela.table import Row

    return {
        "options": (Options,),
        "command_stream": (StreamPrice,),
        "footprint": (Footprint,),
        "bound": (Bound,),
        "nearest": (Figures,),
        "points": (Point, Figures),
        "limits": (MemoryLimits,),
        "extractions": (Extracted,),
        "table": (Row,),
        "change": (Ratio,),
        "by_delegate": (),
        "left": (LeftOperator,),
        "channel_steps": (ChannelStep,),
        "border_transposes": (BorderTransposes,),
    }


#: Fields of records that JSON does not hold.
_UNSAID = {"options": {"rules", "cache", "remember"}, "points": {"figures", "tosa"}, "table": {"cycles", "macs"}}


def nested() -> dict[str, dict[str, str]]:
    """Returns the meanings of the keys of objects within it, by their key."""
    out = {}
    for key, records in _records().items():
        own, unsaid = _OWN_NESTED.get(key, {}), _UNSAID.get(key, set())
        said = {name: text for record in records for name, text in _said(record).items()} | own
        names = [name for record in records for name in _names(record)] + list(own)
        out[key] = {name: said[name] for name in dict.fromkeys(names) if name not in unsaid}
    return out


def _names(record: Any) -> list[str]:
    return [f.name for f in fields(record)] if is_dataclass(record) else list(record._fields)


def _said(record: type) -> dict[str, str]:
    """Returns what the docstring of a record says of its fields, `name: text` or `name, name: text`."""
    text, names = " ".join((record.__doc__ or "").split()), _names(record)
    one = "|".join(names)
    found = list(re.finditer(rf"(?<![\w`.])((?:{one})(?:, (?:{one}))*) ?: ", text))
    ends = [m.start() for m in found[1:]] + [len(text)]
    said = ((name, text[m.end() : end]) for m, end in zip(found, ends) for name in m[1].split(", "))
    code = re.compile(r" \((?:`[\w/.]+(?:/|\.py)[\w/.]*`(?:, )?)+\)")
    return {
        name: code.sub("", words).partition(" Raises ")[0].replace("None", "null").strip(" ;.") for name, words in said
    }
