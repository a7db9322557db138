"""The Markdown parser for pages, which Sphinx and the prover share."""

import functools

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

MYST_EXTENSIONS = frozenset({"attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"})
"""The extensions of MyST that a page may use."""


@functools.cache
def parser() -> MarkdownIt:
    """Return the Markdown parser for pages."""
    return create_md_parser(MdParserConfig(enable_extensions=set(MYST_EXTENSIONS)), RendererHTML)
