"""What a formula may ask for: the names in it, the Python code that is run, and how large a design grows."""

import ast
import math
import re
from collections.abc import Sequence
from typing import Any

from prgd.core.threads import physical_memory

_MAX_TERMS = 100_000  # products of columns that formulaic multiplies out in seconds
_MAX_COLUMNS = 1_000_000  # columns of a design that formulaic makes in a minute
_COLUMN_BYTES, _ENTRY_BYTES = 1000, 12  # what formulaic holds for a sparse column, and for an entry of it
# The command line runs arithmetic on columns and calls of these functions, unless --formula-python is given.
_FUNCTIONS = "C, I, log, log2, log10, exp, exp2, exp10, center, scale, poly, bs, cr, np.sqrt"
_SAFE = {*_FUNCTIONS.split(", "), "np.log", "np.exp", "standardize", "cc", "cs", "cbind", "offset", "True"}
_SAFE |= {"False", "None", "Treatment", "Sum", "Helmert", "Diff", "Poly", "contr.treatment", "contr.sum"}
_TOKEN = re.compile(
    r"\s+|`[^`]*`|'[^'\\]*'|\"[^\"\\]*\"|\d{1,15}(?:\.\d*)?(?:e-?\d\d?)?(?!\w)|\*\*\s*\d(?![\w.]|\s*\*\*)"
    r"|[^\W\d]\w*\s*=(?!=)|[<>=]=|!=|(?<!\*)\*(?!\*)|(?<![<>])[<>](?![<>])|[-+/(),[\]]|(?:(?:np|contr)\.)?[^\W\d]\w*"
)
# Powers of powers of integers, repeated texts and lists, and huge numbers of columns have no end.
_MAX_POWERS, _ENDLESS = 5, re.compile(r"\*.*['\"[]|['\"[].*\*|\b(poly|bs|cr|cc|cs)\(.*(\*|\d{4})")


def check_terms(tree: Any, n_columns: int) -> None:
    """Raise ``ValueError`` if formulaic would multiply out too many terms; ``(x + g)**40`` are 2^40."""
    if _n_terms(tree, n_columns) > _MAX_TERMS:
        raise ValueError(f"it multiplies out to more than {_MAX_TERMS:,} terms. Ask for fewer products.")


def _n_terms(node: Any, n_columns: int) -> float:
    """Return how many terms formulaic multiplies out, at most, for a part of its syntax tree."""
    count = 0.0
    while (symbol := str(getattr(node, "operator", ""))) in ("+", "-"):  # Sums nest to the left.
        node, *rest = node.args
        count += sum(_n_terms(part, n_columns) for part in rest)
    parts = list(getattr(node, "args", ()))
    sizes = [_n_terms(part, n_columns) for part in parts]
    if symbol in ("**", "^"):
        if not str(parts[1]).isdecimal():  # Of (2 + 3) formulaic would take the 2.
            raise ValueError(f"the right-hand side of {symbol} must be a positive integer; got {parts[1]}.")
        power = int(str(parts[1])[:9])
        return count + max(power, min(sizes[0], 1e3) ** min(power, 99))
    products = math.prod(sizes) if symbol in ("*", ":") else 0.0
    return count + products + (n_columns if symbol == "." else sum(sizes) if sizes else 1)


def check_safe(text: str, expressions: Sequence[str], columns: Sequence[str]) -> None:
    """Raise ``ValueError`` if an expression does more than arithmetic and calls of `_SAFE`."""
    for expression in expressions:
        if not _is_safe(expression, columns):
            raise ValueError(
                f"Formula {text!r}: {expression} is Python code beyond arithmetic and {_FUNCTIONS}, and is"
                " not run: compute it first, as a column of the data, or allow it by --formula-python."
            )


def _is_safe(expression: str, columns: Sequence[str]) -> bool:
    """Say whether an expression is made of names, small numbers, text, arithmetic and calls of `_SAFE`.

    Examples
    --------
    >>> [_is_safe(x, ["x"]) for x in ("log(x + 1)", "C(x, Treatment('a'))", "np.load('x')", "x.T", "1<<9")]
    [True, True, False, False, False]
    """
    tokens, known = _TOKEN.findall(expression), {*_SAFE, *columns}
    names = [token for token in tokens if re.match(r"[^\W\d]", token) and not token.endswith("=")]
    has_no_end = expression.count("**") > _MAX_POWERS or _ENDLESS.search(expression)
    return "".join(tokens) == expression and known.issuperset(names) and not has_no_end


def check_size(text: str, terms: Any, frame: Any) -> None:
    """Raise ``ValueError`` if the design has too many columns, or takes more memory than there is."""
    levels = {name: frame[name].nunique() for name in frame}
    numbers = {name for name in frame if frame[name].dtype.kind in "biuf"}

    def width(factor: Any) -> int:
        names = names_in(factor.expr)[0] if factor.expr.startswith("C(") else {factor.expr} - numbers
        return math.prod(levels.get(name, 1) for name in names)

    columns = sum(math.prod(map(width, term.factors)) for term in terms)
    need = columns * _COLUMN_BYTES + len(terms) * len(frame) * _ENTRY_BYTES
    if columns > _MAX_COLUMNS or need > physical_memory():
        raise ValueError(
            f"Formula {text!r}: expected at most {_MAX_COLUMNS:,} columns that fit in memory, got "
            f"{columns:,} columns of {need / 1e9:.3g} GB. Use fewer levels or fewer products."
        )


def names_in(expression: str) -> tuple[set[str], set[str]]:
    """Return the names that a Python expression uses as values, and those that it calls.

    Backticks quote names that are no identifiers. Formulaic itself misses names inside ``poly``.

    Examples
    --------
    >>> values, called = names_in("poly(`dose, mg`, 2) + np.log(age)")
    >>> sorted(values), sorted(called)
    (['age', 'dose, mg', 'np'], ['poly'])
    """
    quoted = re.findall(r"`([^`]*)`", expression)
    nodes = list(ast.walk(ast.parse(re.sub(r"`[^`]*`", "None", expression), mode="eval")))
    # Python's ^ of integers is their XOR, without a word.
    if any(isinstance(node, ast.BitXor) for node in nodes):
        raise ValueError(f"Formula: {expression} has ^, but powers are ** in Python, as in I(x ** 2).")
    functions = [node.func for node in nodes if isinstance(node, ast.Call)]
    called = {function.id for function in functions if isinstance(function, ast.Name)}
    names = {node.id for node in nodes if isinstance(node, ast.Name) and node not in functions}
    return {*quoted, *names}, called
