"""Quotations from the paper's TeX source, with symbols in place of commands."""

from __future__ import annotations

import re

# Applied in order. Words stay as the paper has them; only what TeX would set as a symbol or a font changes.
_STEPS = (
    (r"[~\s]*\\(?:ref|eqref|citep?|citet|label)\{[^}]*\}", " [...]"),
    (r"\\(?:text|texttt|textbf|textit|emph|mathrm|mathbf|mathcal|mathbb|bm)\{([^{}]*)\}", r"\1"),
    (r"\\hat\{\\?b?([a-z])\}", "\\1\u0302"),
    (r"\\tilde\{\\?[bc]?([a-zA-Z])\}", "\\1\u0303"),
    (r"\{\\(?:bf|em|it|rm|tt)\s*([^{}]*)\}", r"\1"),
    (r"\^(?:\{\\star\}|\\star|\{\*\}|\*)", "*"),
    (r"\\in(?![a-zA-Z])", " in "),
    (r"\\bzero(?![a-zA-Z])", "0"),
    (r"\\b([wxvzu])(?![a-zA-Z])", r"\1"),
    (r"\\c([A-Z])(?![a-zA-Z])", r"\1"),
    (r"\\bb([A-Z])(?![a-zA-Z])", r"\1"),
    (r"\\(?:norm)\{([^{}]*)\}", r"||\1||"),
    (r"\\[td]?frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1)/(\2)"),
    (r"\\bracket\{([^{}]*)\}", r"(\1)"),
    (r"=&|&=", "="),
    (r"\\(?:norm)\{([^{}]*)\}", r"||\1||"),  # a norm around a fraction of norms
    (r"\\(Omega|Theta|alpha|beta|gamma|eta|mu|epsilon|exp|log|min|max|rank|sum)(?![a-zA-Z])", r"\1"),
    (r"\\(?:left|right|!|,|;|quad|small|big)(?![a-zA-Z])", ""),
    (r"\\(?:leq?)(?![a-zA-Z])", "<="),
    (r"\\(?:geq?)(?![a-zA-Z])", ">="),
    (r"\\(?:neq?)(?![a-zA-Z])", "!="),
    (r"\\infty(?![a-zA-Z])", "infinity"),
    (r"\\times(?![a-zA-Z])", " x "),
    (r"([\^_])\{([^{}]*)\}", r"\1(\2)"),
    (r"\\([%&#_{}])", r"\1"),
    (r"\$", ""),
    ("``", "\u2018"),
    ("''", "\u2019"),
    (r"~|\s+", " "),
)
_GREEK = dict(
    zip(["Omega", "Theta", "alpha", "beta", "gamma", "eta", "mu", "epsilon"], "ΩΘαβγημε", strict=True)
)


def readable(quote: str) -> str:
    r"""Return a quotation with symbols in place of TeX; text without TeX comes back as it is.

    Examples
    --------
    >>> readable(r"the rate is $\Omega(1/t)$, see Theorem~\ref{thm: x}, and $\gamma^\star$ is {\bf known}")
    'the rate is Ω(1/t), see Theorem [...], and γ* is known'
    """
    if not re.search(r"[\\$~]|``", quote):
        return quote
    for pattern, symbol in _STEPS:
        quote = re.sub(pattern, symbol, quote)
    greek = "|".join(sorted(_GREEK, key=len, reverse=True))
    return re.sub(rf"(?<![a-zA-Z])({greek})(?![a-zA-Z])", lambda m: _GREEK[m[1]], quote).strip()
