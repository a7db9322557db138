"""The Markdown that a page is written in, the same for every front end."""

import functools

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

MYST_EXTENSIONS = frozenset({"attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"})
"""The syntax that a page may use."""


@functools.cache
def parser() -> MarkdownIt:
    """Return the parser of pages."""
    return create_md_parser(MdParserConfig(enable_extensions=set(MYST_EXTENSIONS)), RendererHTML)
