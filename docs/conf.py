"""The site: pages proven while they are built, and no request that leaves the reader's machine."""

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

# Where the site stands in each language, beside the English one, and what that calls itself.
LANGUAGES = {"en": ("", "English"), "zh_CN": ("zh-cn/", "中文")}
language = os.environ.get("SITE_LANGUAGE", "en")
place_of_language = LANGUAGES[language][0]
claims_shown_with = {"LEAFGRAD_LANG": language} if place_of_language else {}
locale_dirs = ["locales"]
gettext_compact = False  # a catalogue a page
gettext_location = gettext_uuid = False  # which would change with each line above

extensions = [
    "sphinx_claims",  # executes and judges every page; sets up myst_nb
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
# Decisions are read in the repository, and blind checks only run.
exclude_patterns = ["_build", "_templates", "checks", "decisions"]
templates_path = ["_templates"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
nb_render_markdown_format = "myst"  # so that a cell can make a table
nitpicky = True
# sphinx-autodoc-typehints still calls what Sphinx 10 will drop: its business, not the reader's.
warnings.filterwarnings(
    "ignore", category=RemovedInSphinx10Warning, module="sphinx_autodoc_typehints"
)

smartquotes = False  # a message of PyTorch is searched for with its own quotes
default_role = "literal"  # single backticks in a docstring
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
typehints_document_rtype_none = False
typehints_use_rtype = False
always_use_bars_union = True
suppress_warnings = ["config.cache"]  # of the function below, which Sphinx cannot keep


def typehints_formatter(annotation: object, _: object) -> str | None:
    """Write a type variable without its bound, and a class of `torch._C` by its public name."""
    if getattr(annotation, "__module__", None) == "torch._C":
        return f":py:class:`torch.{annotation.__name__}`"  # type: ignore[attr-defined]
    return f"``{annotation.__name__}``" if isinstance(annotation, TypeVar) else None


# Inventories of the few names that the reference needs, kept here: a build asks no network.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", "_inventories/python.txt"),
    "torch": ("https://docs.pytorch.org/docs/stable", "_inventories/torch.txt"),
}
intersphinx_disabled_reftypes = ["std:*"]

# Where the site and its source will stand, who publishes it tells in the environment.
repository = os.environ.get("GITHUB_REPOSITORY", "")
html_baseurl = os.environ.get("SITE_URL", os.environ.get("READTHEDOCS_CANONICAL_URL", ""))
if html_baseurl:
    html_baseurl = html_baseurl.rstrip("/") + "/" + place_of_language
    extensions.append("sphinx_sitemap")
    sitemap_url_scheme = "{link}"
    sitemap_excludes = ["404.html", "genindex.html", "search.html", "how-to/nan.html"]
    ogp_site_url = html_baseurl

# The page for addresses that do not exist stands at each of them, so its links begin at the root.
published = f"/{repository.partition('/')[2]}/".replace("//", "/")  # where GitHub would do so
notfound_urls_prefix = urlsplit(html_baseurl).path or published + place_of_language

ogp_image, ogp_image_alt = "_static/card.png", "leafgrad: see what autograd sees"
ogp_social_cards = {"enable": False}

html_theme = "furo"
html_title = "leafgrad"
html_favicon = html_logo = "_static/leaf.svg"
html_secnumber_suffix = " "
html_static_path = ["_static"]
MOVED = {  # pages that were joined, and where readers of their old addresses go
    "how-to/before-backward": "backward-error.html",
    "how-to/errors-operations": "errors.html",
    "how-to/nan": "does-not-train.html#nan-and-infinity",
    "how-to/vanishing": "does-not-train.html#gradients-vanish",
    "tutorial/grad-fn": "graph.html",
    "tutorial/pinn-scales": "../how-to/pinn-does-not-converge.html",
    "tutorial/retain": "graph.html#keep-the-gradient-of-an-intermediate-tensor",
}
html_additional_pages = dict.fromkeys(MOVED, "moved.html")
html_context = {  # what leads from a page to its translations
    "moved": MOVED,
    "languages": [(code.replace("_", "-"), *about) for code, about in LANGUAGES.items()],
    "to_english": "../" if place_of_language else "",
}
toc_object_entries_show_parents = "hide"  # beside a class, a name is short enough not to break
html_css_files = ["leafgrad.css"]
html_js_files = [(script, {"defer": "defer"}) for script in ("sidebar.js", "search.js")]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_theme_options: dict[str, str] = {}
if repository:  # a page leads to its source, and to where one can change it
    server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
    html_theme_options |= {
        "source_repository": f"{server}/{repository}/",
        "source_branch": os.environ.get("GITHUB_REF_NAME", "main"),
        "source_directory": "docs/",
    }
# The colours of both, and of the brand, stand in leafgrad.css, not on each page.
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "github-dark"

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
