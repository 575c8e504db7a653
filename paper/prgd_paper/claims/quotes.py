"""Quotations from the paper's TeX source, with symbols in place of commands."""

from __future__ import annotations

import re

# Commands without arguments; a zero byte asks for a space after a word or a bracket.
_GREEK = ("Omega", "Theta", "alpha", "beta", "gamma", "delta", "eta", "lambda", "mu", "rho", "brho")
_SYMBOLS = (
    dict(zip((*_GREEK, "varphi", "epsilon", "ell"), "ΩΘαβγδηλμρρφεl", strict=True))
    | {f"b{letter}": letter for letter in "wxvzu"}
    | {f"c{letter}": letter for letter in "ILOPS"}
    | {f"bb{letter}": letter for letter in "ABCRS"}
    | {name: f"\0{name}" for name in ["exp", "log", "min", "max", "inf", "lim", "rank", "sum"]}
    | dict.fromkeys(["left", "right", "limits", "small", "big"], "")
    | dict.fromkeys(["le", "leq"], " <= ")
    | dict.fromkeys(["ge", "geq"], " >= ")
    | dict.fromkeys(["ne", "neq"], " != ")
    | {"in": " in ", "to": " -> ", "times": " x ", "quad": " ", "forall": "for all ", "nabla": "grad "}
    | {"infty": "∞", "bzero": "0", "perp": "perp", "cdot": "."}
)
# Applied in order. Words stay as the paper has them; only what TeX would set as a symbol or a font changes.
_FIRST = (
    (r"\\\\", " "),
    (r"\\(?:begin|end)\{[a-z]+\*?\}", " "),
    (r"(?<!\\)&(?=\S)", ""),  # an alignment, not a word
    (r"[~\s]*\\(?:ref|eqref|citep?|citet|label)\{[^}]*\}", " [...]"),
    (r"\{\\(?:bf|em|it|rm|tt)\s*([^{}]*)\}", r"\1"),
    (r"\^(?:\{\\star\}|\\star|\{\*\}|\*)", "*"),
    (r"\\log(?=\d)", r"\\log "),
    (r"\\[!,; ]", " "),
    (r"\\([<>])", r"\1"),
)
# Commands with arguments, the innermost first: applied until nothing changes.
_NESTED = (
    (r"\\hat\{(\w)\}", "\\1\u0302"),
    (r"\\tilde\{(\w)\}", "\\1\u0303"),
    (r"\\(?:text|texttt|textbf|textit|emph|mathrm|mathbf|mathcal|mathbb|bm)\{([^{}]*)\}", r"\1"),
    (r"([\^_])\{\0?(\w+)\}", r"\1\2"),
    (r"([\^_])\{([^{}\\]*)\}", r"\1(\2)"),
    (r"\\norm\{([^{}]*)\}", r"||\1||"),
    (r"\\bracket\{([^{}]*)\}", r"(\1)"),
    (r"\\sqrt\{([^{}]*)\}", "\0sqrt(\\1)"),
    (r"\\[td]?frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1)/(\2)"),
)
_LAST = (
    (r"(?<=[\w*)])\0", " "),
    (r"\0", ""),
    (r"(?<!\\)[{}]", ""),
    (r"\\([%&#_{}])", r"\1"),
    (r"\$", ""),
    ("``", "\u2018"),
    ("''", "\u2019"),
    (r"~|\s+", " "),
    (r"([(<{]) (?=\S)(?!=)| (?=[)},;]|\.(?!\.))", r"\1"),
)


def _apply(steps: tuple[tuple[str, str], ...], quote: str) -> str:
    for pattern, symbol in steps:
        quote = re.sub(pattern, symbol, quote)
    return quote


def readable(quote: str) -> str:
    r"""Return a quotation with symbols in place of TeX; text without TeX comes back as it is.

    Examples
    --------
    >>> readable(r"the rate is $\Omega(1/t)$, see Theorem~\ref{thm: x}, and $\gamma^\star$ is {\bf known}")
    'the rate is Ω(1/t), see Theorem [...], and γ* is known'
    >>> readable(r"$\norm{\frac{\bw}{\sqrt{\mu_{\min}}}}\geq1$")
    '||(w)/(sqrt(μ_min))|| >= 1'
    """
    if not re.search(r"[\\$~]|``", quote):
        return quote
    quote, before = _apply(_FIRST, quote), ""
    quote = re.sub(r"\\([a-zA-Z]+)", lambda command: _SYMBOLS.get(command[1], command[0]), quote)
    while quote != before:
        quote, before = _apply(_NESTED, quote), quote
    return _apply(_LAST, quote).strip()
