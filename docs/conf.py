"""Sphinx: python -m sphinx -E -W --keep-going docs build/docs"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
import eqsat  # noqa: E402
from docs.generate import fill  # noqa: E402

project, author, release = "eqsat", "the eqsat authors", eqsat.__version__
copyright = "the eqsat authors, Apache-2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
myst_heading_anchors = 3
smartquotes = False  # `--option` in running text
html_theme = "furo"
html_title = f"eqsat {release}"
html_show_sphinx = html_copy_source = False
html_static_path, html_css_files = ["_static"], ["words.css"]
exclude_patterns = ["_build"]


def setup(app) -> None:
    def docstring(_app, _what, _name, _object, _options, lines: list[str]) -> None:
        # ours are prose in which an indent and a bar mean nothing
        lines[:] = [line.strip().replace("|", "\\|") for line in lines]

    def source_read(_, page: str, content: list[str]) -> None:
        content[0] = fill(content[0])

    app.connect("source-read", source_read)
    app.connect("autodoc-process-docstring", docstring)
