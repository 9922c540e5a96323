"""The keys of the JSON object that `eqsat compile` and `eqsat optimize` print, each with its meaning.

Keys of objects within it that are fields of a record mean what the docstring of that record says.
`docs/json.md` shows the tables, and a test compares them with what both commands print.
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import Any

_SIDES = "of two graphs: `stock` (in `eqsat optimize`: the graph in the file) and `eqsat` (the result)"
_EACH_SIDE = "in `eqsat compile`, an object with `stock` and `eqsat`"
#: Keys of both commands.
BOTH = {
    "schema": "the version of this JSON format: 1",
    "model": "the model or file, as given",
    "target": "the NPU configuration, such as `ethos-u85-256`",
    "configuration": "Vela's settings: `system_config`, `memory_mode` and `config` (the `.ini` file)",
    "options": "the values of all options that affected the result, also of those that were not given",
    "vela": "the version of Vela",
    "calibrated": f"calibrated cycles (eqsat's estimate, by which it ranks graphs), {_SIDES}",
    "cycles": f"Vela's estimate of all cycles, {_SIDES}",
    "corrected": "the same as `cycles`; the key is kept from earlier versions",
    "milliseconds": f"the time that the calibrated cycles take at the NPU's clock; {_EACH_SIDE}",
    "by_kind": f"Vela's cycles, summed for each kind of operator; {_EACH_SIDE}",
    "command_stream": "number and calibrated cycles of the NPU's commands, for `stock` and `eqsat`; null if not known",
    "bound": "lower bounds on the cycles of the input graph, and the numbers behind them",
    "fits": "whether the result is within the memory limits",
    "verified": "whether the result equals the input bit for bit, by a proof or on sample inputs",
    "proved": "whether a proof shows that the result equals the input for all input values",
    "undecided": "the operators that the proof could not decide, and why; the result was then compared on samples",
    "error_bound": "the highest probability that a true value of `proved` is wrong",
    "coverage": "the share of the operators of the input that rules can rewrite, from 0 to 1",
    "interrupted": "whether Ctrl-C ended the search early",
    "warnings": "the text of each warning",
    "seconds": "the wall-clock seconds of each stage",
}
#: Keys of both commands, of which `eqsat compile` prints a list with an entry per delegate.
EACH = {
    "chosen": "the graph that is used: `eqsat`, `stock` or `explicit` (the unchanged input)",
    "settings": "the Vela settings that the search chose for the result",
    "kept": 'if eqsat saved no cycles: why, and which graph is used; else ""',
    "channel_steps": "advice for the model: numbers of channels that waste cycles, and better, slightly lower ones",
    "passed_over": 'what the fastest graph beyond the memory limits would save, as text; "" if there is none',
    "nearest": "if the result exceeds the memory limits: the numbers of the graph that exceeds them least; else null",
    "points": "the Pareto set: the compiled graphs that no other beats in cycles, SRAM and flash; sorted by cycles",
    "remembered": "whether the result comes from eqsat's store, from the same search before; it was verified again",
    "respelled": "whether the result makes the choices of a stored result for a graph that differs only in constants",
    "stock_verified": "like `verified`, for stock's graph; null if this graph could not be compared",
    "stock_proved": "like `proved`, for stock's graph; null if no proof was tried",
    "binary_verified": "whether the NPU's commands compute what the input does; null if they did not run to the end",
    "binary_proved": "true if a proof shows that the NPU's commands equal the result graph for every input; else null",
    "binary_undecided": "the commands that the proof of `binary_proved` could not decide, or why there is none",
    "stock_binary_verified": "like `binary_verified`, for stock's graph",
    "stock_binary_proved": "the same as `binary_proved` if the result is stock's graph; else null",
    "stock_binary_undecided": "the same as `binary_undecided` if the result is stock's graph",
}
#: Keys of `eqsat compile` alone.
COMPILE = {
    "delegates": "the number of delegates (parts of the program that run on the NPU)",
    "by_delegate": "a list with the name, cycles, chosen graph, table of operators and error of each delegate",
    "stepped_back": "the number of delegates that are stock's, because eqsat failed or found no other graph",
    "cpu_operators": "the operators outside all delegates: how many there are of each name",
    "left": "the operators that the partitioner left on the CPU",
    "layout": "the layout (order of axes) of the inputs and outputs of the result",
    "layouts": "with `--layouts auto`, the calibrated cycles with each layout that was tried and not rejected",
    "border_transposes": "the transposes at inputs and outputs of delegates; null if they take no cycles",
    "calibration": "the data on which the quantization of the model was calibrated",
    "memory": "bytes of memory, for `stock` and `eqsat`, each with the keys of `footprint`",
    "pte_bytes": "the size of the `.pte` file in bytes",
    "stock_pte_bytes": "the size in bytes of the `.pte` file that ExecuTorch makes without eqsat",
    "binary_reasons": "for each delegate, why its commands did not run on eqsat's simulator, or give wrong results",
    "deviations": "null for each delegate; the key is kept from earlier versions",
}
_FIGURES = ("cycles", "corrected", "calibrated", "by_kind", "footprint", "milliseconds")
#: Keys of `eqsat optimize` alone.
OPTIMIZE = {
    "change": "the ratio of the calibrated cycles of the result to those of the graph in the file",
    "footprint": "bytes of memory that the result needs",
    "limits": "the bytes of memory that the result may need",
    "table": "Vela's table of the operators of the result, with a row for each",
    "opaque": "the operators of the input that no rule can rewrite: how many there are of each kind",
    "searched": "whether a search found a graph that Vela accepts; if not, the exit code is 4",
    "e_nodes": "the number of e-nodes (operators in the e-graph)",
    "stop": "why the rules were no longer applied to the e-graph",
    "candidates": "how many compiled graphs were compared",
    "extractions": "the graphs that the search found and Vela compiled, with their cycles",
    "binary_reason": "why the NPU's commands did not run on eqsat's simulator, or where they give wrong results",
    "binary_samples": "on how many sample inputs the NPU's commands were compared with the input graph",
    "tosa": "the size of the result in bytes of TOSA",
    "explicit": "the size of the input in bytes of TOSA",
    "referee": "always `calibrated`: graphs are ranked by calibrated cycles",
    **dict.fromkeys(("deviation", "raw", "run"), "always null; the key is kept from earlier versions"),
    **{f"explicit_{figure}": f"like `{figure}`, for the graph in the file" for figure in _FIGURES},
    **{f"stock_{figure}": f"the same as `explicit_{figure}`" for figure in _FIGURES},
    **dict.fromkeys(("stock_footprint", "stock_milliseconds"), "always null"),
}
#: Keys of objects within it that are no fields, or are more than their fields.
_OWN_NESTED: dict[str, dict[str, str]] = {
    "table": {
        "op_cycles": "Vela's cycles of the operator, as text",
        "npu_cycles": "Vela's cycles of the operator without those of memory accesses, as text",
        "corrected": "the same as `op_cycles`, as a number",
        "busy_cycles": "cycles in which the operator computes or writes",
        "sram_bytes": "bytes of SRAM in use while the operator runs",
        "weight_bytes": "bytes of the operator's encoded weights, without scales",
        "command_bytes": "bytes of the operator's NPU commands",
        "calibrated": "calibrated cycles of the operator's NPU commands",
        "mac_count": "the number of the operator's MACs, as text",
        "operator": "Vela's name of the operator",
        "name": "Vela's name of the operator's result",
        "mac_cycles": "cycles of the operator's MACs if the NPU computes at its full rate",
        "ideal": "the larger of `mac_cycles` and the cycles in which the weights are read at the full rate",
        "waiting": "cycles in which memory keeps the operator waiting",
        "origins": "the PyTorch operators that the operator comes from: `node`, `module`, `kind` and debug `handle`",
        "source": 'the name of the result of the TOSA operator from which the operator was made; "" if there is none',
    },
    "options": {
        "preset": "the name of the set of rules (`--rules`)",
        "extractor": "the name of the extractor",
        "cost_model": "the name of the cost model",
        "budget": "limits on how far the e-graph may grow: `nodes`, `seconds`, `passes` and `matches`",
        "max_sram": "the limit of SRAM, in the form of `--max-sram`",
        "max_flash": "the limit of flash, in the form of `--max-flash`",
        "objective": "what the search minimizes: `cycles`, `sram` or `pareto`",
        "effort": "the effort level, 0 to 2",
        "time_limit": "the limit of an extraction in seconds",
        "rounds": "how often an extractor may choose a graph; after each choice, compiled cycles correct the estimates",
        "binary_time_limit": "processor seconds for the proof of a binary; with 0, binaries are neither run nor proved",
    },
    "bound": {
        "operators": "of each operator the cycles of its MACs or weights, the larger, added up; not always a bound",
        "roofline": "the largest of three numbers of cycles, at full rates: of MACs, weights, and inputs with outputs",
        "macs": "the number of MACs, including those with padding",
        "weight_bytes": "bytes of the weights before Vela encodes them",
        "mac_cycles": "cycles of the MACs if the NPU computes at its full rate",
    },
    "command_stream": {
        "cycles": "calibrated cycles of all commands",
        "by_kind": "for each kind of command, the number (`commands`) and the calibrated `cycles`",
        "commands": "the number of commands, without waits",
    },
    "footprint": {
        "memory": 'for each memory, the most bytes in use at once ("peak"), and the bytes "read" and "written"',
        "sram": "the most bytes of SRAM in use at once",
        "commands": "bytes of the NPU commands, which stay in flash",
        "weights": "bytes of the encoded weights, which stay in flash",
        "payload": "bytes of commands and weights in the `.pte` file",
    },
    "nearest": {
        "cycles": "calibrated cycles",
        "sram": "the most bytes of SRAM in use at once",
        "vela_total": "Vela's estimate of all cycles, only used to check that a graph is not slower than stock's",
    },
    "points": {
        "cycles": "calibrated cycles",
        "vela_total": "Vela's estimate of all cycles",
        "settings": "the Vela settings that the search chose for the graph",
        "name": "which graph it is: `eqsat`, `stock` or `explicit`",
        "fits": "whether the graph is within the memory limits",
        "verified": "whether the graph equals the input; null if this was not checked",
        "sram": "the most bytes of SRAM in use at once",
    },
    "limits": {
        "sram": "the most bytes of SRAM that the result may need; null: no limit",
        "flash": "the most bytes of commands and weights that the result may need; null: no limit",
        "earned": "flash beyond `flash` that the result may need if it saves enough cycles",
    },
    "left": {
        "name": "the name of the operator",
        "number": "how many operators of this name there are",
        "reason": 'why the partitioner left them; "" if it does not say',
        "remedy": 'what to write instead in the model; "" if nothing is known',
    },
    "channel_steps": {
        "channels": "a number of channels in the model",
        "fewer": "the next lower multiple of 16, which would be better",
        "convolutions": "how many convolutions read or write this number of channels",
        "cycles": "calibrated cycles that all of these convolutions together would save, estimated",
    },
    "border_transposes": {
        "number": "the number of these transposes",
        "cycles": "calibrated cycles of all of these transposes",
    },
    "change": {
        "value": "the ratio of the two numbers of cycles",
        "within": "how far the ratio may be off, as a share of 1; null if that is not known",
    },
    "by_delegate": {
        "name": "the name of the delegate, such as `forward/0`",
        "cycles": "Vela's estimate of all cycles of the chosen graph",
        "corrected": "the same as `cycles`",
        "calibrated": "calibrated cycles of the chosen graph",
        "stock_cycles": "Vela's estimate of all cycles of stock's graph",
        "stock_corrected": "the same as `stock_cycles`",
        "stock_calibrated": "calibrated cycles of stock's graph",
        "change": "calibrated cycles of the chosen graph, divided by those of stock's, as in the key `change`",
        "chosen": "the graph that is used: `eqsat`, `stock` or `explicit`",
        "error": 'why eqsat fell back to stock\'s graph; "" if it did not',
        "table": "Vela's table of the operators, as in the key `table`",
        "text": "the line that the terminal shows about the delegate",
    },
    "extractions": {
        "extractor": "the extractor or other step of the search that made the graph",
        "round": "how many graphs of the same `extractor` and `proposal` come before it in the list",
        "predicted": "cycles that the cost model predicts",
        "gap": "a proved limit on how far the choice is from the cheapest one, as a share; null if none is proved",
        "proposal": "the proposal (step of the search) that asked Vela to compile the graph",
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
