"""Check the built site: no dead link, nothing loaded from a network, no path of a machine, every public name.

Usage: python docs/check_site.py docs/_build/html
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from public_names import public_names
from sphinx.util.inventory import InventoryFile

# What a browser loads by itself with the page, by tag; <link> loads what has one of the relations below.
LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src", "embed": "src"}
LOADED_RELATIONS = {
    "stylesheet",
    "icon",
    "preload",
    "modulepreload",
    "preconnect",
    "dns-prefetch",
    "manifest",
}
IN_STYLES = re.compile(r"""(?:url\(\s*|@import\s+)['"]?((?:https?:)?//[^'")\s]+)""")
# Of warnings and of values whose text says where their module lies.
PATHS = (str(Path(__file__).parents[1]), sys.prefix)
# Pages whose addresses hold the state of a program behind the #, so that it names no element.
PROGRAMS = ("explorer/",)


@dataclass
class Page(HTMLParser):
    """The ids of a page, the links that a reader may follow, and what the browser loads."""

    text: str
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)
        self.loaded += IN_STYLES.findall(self.text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note what the tag defines, links to and loads."""
        found = {name: value for name, value in attributes if value is not None}
        self.ids.update(found[name] for name in ("id", "name") if name in found)
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in LOADED and LOADED[tag] in found:
            self.loaded.append(found[LOADED[tag]])
        if tag in ("img", "source") and "srcset" in found:
            self.loaded += [part.split()[0] for part in found["srcset"].split(",")]
        if tag == "link" and LOADED_RELATIONS & set(found.get("rel", "").split()):
            self.loaded.append(found["href"])


def problems(site: Path) -> list[str]:
    """Return a sentence for each thing that is wrong with the site."""
    pages = {
        file: Page(file.read_text()) for file in sorted(site.rglob("*.html")) if "_static" not in file.parts
    }
    found = []
    for file, page in pages.items():
        where = file.relative_to(site)
        found += [f"{where} shows {path}, a path of this machine." for path in PATHS if path in page.text]
        for address in page.loaded:
            if _is_remote(address):
                found.append(f"{where} loads {address} from a network.")
        for address in [*page.links, *page.loaded]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file.resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                found.append(f"{where} links to {address}, which does not exist.")
            elif parts.fragment and not _has_place(target, parts.fragment, pages, site):
                found.append(f"{where} links to {address}, but that page has no such place.")
    for style in sorted(site.rglob("*.css")):
        found += [f"{style.relative_to(site)} loads {url}." for url in IN_STYLES.findall(style.read_text())]
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    known = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    found += [f"{name} is public and not in the reference." for name in public_names() if name not in known]
    return found


def _is_remote(address: str) -> bool:
    return address.startswith("//") or urlsplit(address).scheme in ("http", "https", "ftp")


def _has_place(target: Path, fragment: str, pages: dict[Path, Page], site: Path) -> bool:
    if target not in pages or target.relative_to(site).as_posix().startswith(PROGRAMS):
        return True
    return unquote(fragment) in pages[target].ids


def main() -> None:
    """Print what is wrong, and fail if anything is."""
    site = Path(sys.argv[1]).resolve()
    found = problems(site)
    print("\n".join(found), file=sys.stderr)
    if found:
        sys.exit(f"{len(found)} problems in {site}.")
    size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
    count = sum(1 for _ in site.rglob("*.html"))
    print(f"{count} pages, {size / 1e6:.0f} MB. No link is dead, and no page loads anything from a network.")
    print(f"All {len(public_names())} public names are in the reference. Open {site / 'index.html'}")


if __name__ == "__main__":
    main()
