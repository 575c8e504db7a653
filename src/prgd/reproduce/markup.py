"""HTML as nested calls, so that nothing reaches the page without being escaped."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from prgd.reproduce.figures import pretty


class Safe(str):
    """A piece of HTML; any other text is escaped when it is put into a tag."""

    __slots__ = ()


def tag(name: str, /, *content: str, **attributes: str | None) -> Safe:
    """Return an element; attributes end with or use an underscore where Python has no such name.

    Examples
    --------
    >>> tag("a", "gamma_star < 1", href="#top", class_="x", data_file='"')
    '<a href="#top" class="x" data-file="&quot;">γ* &lt; 1</a>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(pretty(value) if key == "alt" else value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Safe(f"<{name}{given}>{''.join(map(_safe, content))}</{name}>")


def void(name: str, /, **attributes: str | None) -> Safe:
    """Return an element without content, such as an image."""
    return Safe(tag(name, **attributes).removesuffix(f"</{name}>"))


def join(*parts: str) -> Safe:
    """Return the pieces one after the other, one a line."""
    return Safe("\n".join(map(_safe, parts)))


def script(content: str, **attributes: str | None) -> Safe:
    """Return a script; a closing tag inside would end it, so it is written with a backslash."""
    return tag("script", Safe(content.replace("</script", "<\\/script")), **attributes)


def json_script(value: Any, **attributes: str | None) -> Safe:
    r"""Return a script that holds JSON.

    Examples
    --------
    >>> json_script(["</script>"])
    '<script type="application/json">["\\u003c/script>"]</script>'
    """
    content = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
    return tag("script", Safe(content), type="application/json", **attributes)


def _safe(part: str) -> str:
    return part if isinstance(part, Safe) else escape(pretty(part))
