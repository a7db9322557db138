"""Sphinx configuration. The build verifies each page, and the site requests nothing from others."""

import os
import sys
import warnings
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from sphinx.deprecation import RemovedInSphinx10Warning

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "leafgrad"
author = "The leafgrad authors"
project_copyright = author
version = release = installed_version("leafgrad")

# Each language: the folder of its site below the English one, and the language's own name.
LANGUAGES = {"en": ("", "English"), "zh_CN": ("zh-cn/", "中文")}
language = os.environ.get("SITE_LANGUAGE", "en")
place_of_language = LANGUAGES[language][0]
claims_shown_with = {"LEAFGRAD_LANG": language} if place_of_language else {}
locale_dirs = ["locales"]
gettext_compact = False  # one catalogue per page
gettext_location = gettext_uuid = False  # line numbers would change with every edit

extensions = [
    "sphinx_claims",  # This executes and verifies every page, and sets up `myst_nb`.
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "notfound.extension",
    "sphinx_autodoc_typehints",
    "sphinx_copybutton",
    "sphinxext.opengraph",
    "accessible",
    "chinese_search",
    "code_comments",
    "code_links",
    "dashes",
    "descriptions",
    "diagnoses",
    "keywords",
    "light_code",
    "light_pictures",
    "light_styles",
    "live",
    "mathml",
    "narrow_tables",
    "notebooks",
    "page_checks",
    "routes",
    "sidebar",
    "stays_english",
    "value_classes",
]
# Decisions are for readers of the repository. Blind checks (code that tests claims) are not shown.
exclude_patterns = ["_build", "_templates", "checks", "decisions"]
templates_path = ["_templates"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
nb_mime_priority_overrides = [("gettext", "text/html", 25)]  # for the words in plots
nb_render_markdown_format = "myst"  # This lets the output of a cell be a table.
nitpicky = True
# sphinx-autodoc-typehints still calls functions that Sphinx 10 will remove.
warnings.filterwarnings(
    "ignore", category=RemovedInSphinx10Warning, module="sphinx_autodoc_typehints"
)

smartquotes = False  # readers search for PyTorch's messages, with straight quotes
default_role = "literal"  # This is the role of single backticks in docstrings.
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
typehints_document_rtype_none = False
typehints_use_rtype = False
always_use_bars_union = True
suppress_warnings = ["config.cache"]  # Sphinx cannot pickle the function below


def typehints_formatter(annotation: object, _: object) -> str | None:
    """Return the reST for an annotation that is a type variable or a class of `torch._C`.

    The bound of a type variable is left out. Return None for other annotations, so that they are
    formatted as usual.
    """
    if getattr(annotation, "__module__", None) == "torch._C":
        return f":py:class:`torch.{annotation.__name__}`"  # type: ignore[attr-defined]
    return f"``{annotation.__name__}``" if isinstance(annotation, TypeVar) else None


# Local copies of the inventories, with only the names that we need: a build uses no network.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", "_inventories/python.txt"),
    "torch": ("https://docs.pytorch.org/docs/stable", "_inventories/torch.txt"),
}
intersphinx_disabled_reftypes = ["std:*"]

# The environment variables of the publisher determine the addresses of site and source.
repository = os.environ.get("GITHUB_REPOSITORY", "")
html_baseurl = os.environ.get("SITE_URL", os.environ.get("READTHEDOCS_CANONICAL_URL", ""))
if html_baseurl:
    html_baseurl = html_baseurl.rstrip("/") + "/" + place_of_language
    extensions.append("sphinx_sitemap")
    sitemap_url_scheme = "{link}"
    sitemap_excludes = ["404.html", "genindex.html", "search.html", "how-to/nan.html"]
    ogp_site_url = html_baseurl

# The 404 page is shown at any address, so its links must start at the root.
# GitHub Pages uses the name of the repository as the path.
published = f"/{repository.partition('/')[2]}/".replace("//", "/")
notfound_urls_prefix = urlsplit(html_baseurl).path or published + place_of_language

ogp_image, ogp_image_alt = "_static/card.png", "leafgrad: see what autograd sees"
ogp_social_cards = {"enable": False}

html_theme = "furo"
html_title = "leafgrad"
html_favicon = html_logo = "_static/leaf.svg"
html_secnumber_suffix = " "
html_static_path = ["_static"]
MOVED = {  # removed pages, and where to redirect their addresses
    "how-to/before-backward": "backward-error.html",
    "how-to/errors-operations": "errors.html",
    "how-to/nan": "does-not-train.html#nan-and-infinity",
    "how-to/vanishing": "does-not-train.html#gradients-vanish",
    "tutorial/grad-fn": "graph.html",
    "tutorial/pinn-scales": "../how-to/pinn-does-not-converge.html",
    "tutorial/retain": "graph.html#keep-the-gradient-of-an-intermediate-tensor",
}
html_additional_pages = dict.fromkeys(MOVED, "moved.html")
html_context = {  # Redirects and the language menu need these values.
    "moved": MOVED,
    "languages": [(code.replace("_", "-"), *about) for code, about in LANGUAGES.items()],
    "to_english": "../" if place_of_language else "",
}
toc_object_entries_show_parents = "hide"  # This keeps names from wrapping in the sidebar.
html_css_files = ["leafgrad.css"]
html_js_files = [(script, {"defer": "defer"}) for script in ("sidebar.js", "search.js")]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_theme_options: dict[str, str] = {}
if repository:  # links to view and edit a page's source
    server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
    html_theme_options |= {
        "source_repository": f"{server}/{repository}/",
        "source_branch": os.environ.get("GITHUB_REF_NAME", "main"),
        "source_directory": "docs/",
    }
# leafgrad.css contains the colours of both styles, so that they are not repeated on each page.
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "github-dark"

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
