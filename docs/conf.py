"""Sphinx configuration: ``make docs`` builds the site without network, with warnings as errors."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import shutil
import sys
import tomllib
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
REPORT = HERE / "_build/report"  # drawn by draw_report.py
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "paper"), str(HERE)]
# Code cells run in kernels of their own, which must import this checkout too.
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT / "paper")])
# The kernels take no settings of whoever builds, and do not warn that they talk over a local port.
_profile = HERE / "_build/ipython/profile_default"
(_profile / "startup").mkdir(parents=True, exist_ok=True)
(_profile / "ipython_kernel_config.py").write_text('c.IPKernelApp.log_level = "ERROR"\n')
# Warnings of cells are printed without the path of the kernel's file, which changes from build to build.
(_profile / "startup/warnings_without_paths.py").write_text(
    """import textwrap
import warnings

warnings.showwarning = lambda text, kind, *_: print(textwrap.fill(f"{kind.__name__}: {text}", 88))
"""
)
os.environ["IPYTHONDIR"] = str(_profile.parent)

from gallery_order import GROUPS  # noqa: E402
from public_names import names_of, public_modules, value_of  # noqa: E402

import prgd  # noqa: E402

project = "prgd"
author = "The prgd developers"
copyright = author
version = release = prgd.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "**/.ipynb_checkpoints", "gallery/*.ipynb", "gallery/*.py", "gallery/*.json"]
exclude_patterns += ["**/sg_execution_times.rst", "sg_execution_times.rst"]
suppress_warnings = ["config.cache"]
nitpicky = True
nitpick_ignore_regex = [
    # Bases and types of other libraries: the site is built without network, so it cannot link to them.
    (r"py:.*", r"(?!prgd)(?!.*prgd\.).*"),
    # Names in docstrings that are not in the reference stay plain.
    (r"py:obj", r"prgd.*"),
]

# Pages: MyST, whose code cells run at build time.
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "attrs_inline"]
myst_heading_anchors = 4
nb_execution_mode = "auto"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
# Widgets would load require.js from a server; no page has one.
nb_ipywidgets_js: dict[str, Any] = {}

# The reference.
autosummary_generate = True
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_member_order = "groupwise"
autodoc_default_options = {
    "members": True,
    # Every algorithm has the first; scikit-learn's routing of metadata makes the others.
    "exclude-members": "state_type,get_metadata_routing,set_fit_request,set_score_request",
    "inherited-members": "BaseEstimator,ClassifierMixin,Optimizer,Exception,Warning,tuple,str,Enum,dict",
}
default_role = "autolink"
numpydoc_show_class_members = False
add_module_names = False
python_maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"

# The gallery.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r".*\.py",
    "ignore_pattern": r"__init__\.py",
    "reset_modules": ("matplotlib",),
    "image_srcset": ["2x"],
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "plot_gallery": "True",
    "min_reported_time": 5,
    "remove_config_comments": True,
    "within_subsection_order": "gallery_order.GalleryOrder",
}

# The look. One file holds MathJax with its glyphs, so that pages also open from a disk.
_mathjax = Path(next(iter(importlib.util.find_spec("sphinx-mathjax-offline").submodule_search_locations)))
mathjax_path = "tex-svg-full.js"
html_theme = "pydata_sphinx_theme"
html_title = "prgd"
html_logo = html_favicon = "_static/logo.svg"
html_static_path = ["_static", str(_mathjax / "static/mathjax/tex-svg-full.js")]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "logo": {"text": "prgd"},
    "header_links_before_dropdown": 7,
    "header_dropdown_text": "More",
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "footer_start": ["copyright"],
    "footer_end": [],
    # Scripts of the gallery and the docstrings of the reference have lines of up to 110 characters.
    "secondary_sidebar_items": {"*": ["page-toc"], "note/*": ["page-toc"], "reference/*": ["page-toc"]},
    "back_to_top_button": False,
}
# The source is linked in the header as soon as pyproject.toml names its address.
_urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("urls", {})
html_theme_options["icon_links"] = [
    {"name": name, "url": url, "icon": "fa-solid fa-code"}
    for name, url in _urls.items()
    if name.lower() in ("source", "repository")
]
html_sidebars = {
    page: [] for page in ("index", "get_started", "explorer", "contributing", "changelog", "architecture")
}

# CARD begins a card of the gallery. CARD_PICTURE reaches from the empty text of its picture to its title.
CARD = '.. raw:: html\n\n    <div class="sphx-glr-thumbcontainer"'
CARD_PICTURE = re.compile(r'(:alt:)(\n\n  :doc:`[^`]*`\n)((?:(?!:alt:)[\s\S])*?-title">)([^<]*)')
# Files of the repository that pages link to, and the page that shows each. Other files become plain text.
PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "README.md": "index.md"}
_OUTSIDE = re.compile(r"\[([^][]*)\]\(((?:\.\./)+)([^)#\s]+)(#[^)\s]*)?\)")


def link_to_pages(app: Any, name: str, source: list[str]) -> None:
    """Turn links that leave the folder docs into links to pages of the site, or into plain text."""
    depth = name.count("/")

    def link(found: re.Match[str]) -> str:
        text, up, path, anchor = found.groups(default="")
        if up.count("/") <= depth:
            return found.group()
        if path.startswith("docs/"):
            return f"[{text}]({'../' * depth}{path.removeprefix('docs/')}{anchor})"
        return f"[{text}]({'../' * depth}{PAGES[path]}{anchor})" if path in PAGES else text

    source[0] = _OUTSIDE.sub(link, source[0])


def fill_start_page(app: Any, name: str, source: list[str]) -> None:
    """Write the version and what the first Python code prints, computed now, into the start page."""
    if name == "index":
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(source[0].split("```python\n")[1].split("```")[0], {})  # noqa: S102 - our own page
        output = f"```text\n{printed.getvalue()}```"
        source[0] = source[0].replace("<!-- output of the Python code above -->", output)
        source[0] = source[0].replace("{VERSION}", prgd.__version__)


def group_gallery(app: Any, name: str, source: list[str]) -> None:
    """Put a heading before the first example of each group, and give each picture a text."""
    if name == "gallery/index":
        text = CARD_PICTURE.sub(r":alt: Picture of the example: \4\2\3\4", source[0])
        for group, examples in GROUPS.items():
            at = text.rindex(CARD, 0, text.index(f":doc:`/gallery/{examples[0]}`"))
            text = f'{text[:at]}.. raw:: html\n\n    <h2 class="group">{group}</h2>\n\n{text[at:]}'
        source[0] = text


def note_aliases(app: Any, env: Any) -> list[str]:
    """Let every public name of an object lead to its page: prgd.GD and prgd.algorithms.GD are one."""
    domain = env.domains.python_domain
    pages = {}
    for name, entry in list(domain.objects.items()):
        value = value_of(name)
        if value is not None and not entry.aliased:
            pages.setdefault(id(value), (name, entry))
    for name in (name for module in public_modules() for name in names_of(module)):
        if name not in domain.objects and (found := pages.get(id(value_of(name)))):
            documented, entry = found
            domain.objects[name] = entry._replace(aliased=True)
            for member, its in list(domain.objects.items()):
                if member.startswith(f"{documented}."):
                    domain.objects.setdefault(
                        name + member.removeprefix(documented), its._replace(aliased=True)
                    )
    return []


def copy_pages(app: Any, exception: Exception | None) -> None:
    """Copy the pages that Sphinx does not make: the explorer, and the report by ``draw_report.py``."""
    if exception is None and app.builder.format == "html":
        (app.outdir / "explorer").mkdir(exist_ok=True)
        shutil.copy(HERE / "explorer/explorer.html", app.outdir / "explorer")
        shutil.copytree(REPORT, app.outdir / "report", ignore=_rows_by_task, dirs_exist_ok=True)
        back = '<a class="home" href="../index.html" target="_top">← prgd documentation</a>'
        for page in (app.outdir / "report/index.html", app.outdir / "explorer/explorer.html"):
            page.write_text(page.read_text().replace("<!-- site -->", back, 1))


def _rows_by_task(folder: str, names: list[str]) -> list[str]:
    """Leave out the folders of rows: the page offers the rows of an experiment as one file."""
    return [name for name in names if Path(folder).name == "rows" and Path(folder, name).is_dir()]


def setup(app: Any) -> None:
    """Connect what this file adds to Sphinx."""
    app.connect("source-read", link_to_pages)
    app.connect("source-read", fill_start_page)
    app.connect("source-read", group_gallery)
    app.connect("env-updated", note_aliases)
    app.connect("build-finished", copy_pages)
