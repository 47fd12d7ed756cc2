"""The SQL of a contract, as far as it can be judged without Spark: its syntax, and the columns and tables it names.

Spark has the last word. What is told here is certain: a part of the language that the parser does not share with
Spark, or a name that may be defined in the query itself, makes a query one that is left to Spark. Held to the queries
of Spark's own test suite, of which none that Spark answers may be told as wrong.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from cdc_materializer.contract.conditions import WORDS, spark_texts, words_of
from cdc_materializer.contract.document import Findings, Place
from cdc_materializer.contract.drafts import Draft
from cdc_materializer.contract.table_expectations import ROWS_QUERY
from cdc_materializer.contract.table_rules import SQL, query_of, rows_query_of
from cdc_materializer.names import nearest, quote

if TYPE_CHECKING:
    from sqlglot import exp

#: What stands for the table while its query is looked at.
_TABLE = "__cdc_result"
#: The columns of a table by the parts of its name as a query writes them; None for no such table, none where they are
#: not known.
ColumnsOfParts = Callable[[tuple[str, ...]], Collection[str] | None]

#: Parts of Spark's language that the parser reads otherwise than Spark does, or not at all.
_NOT_SHARED = frozenset(
    word
    for words in (
        "any corr distribute geography geometry identifier interval map match_recognize pivot recursion reduce table",
        "transform unpivot",
    )
    for word in words.split()
)
#: What gives columns that nobody names, or takes their names from values.
_NAMING = frozenset(
    word
    for words in (
        "explode explode_outer identifier inline inline_outer json_tuple lateral match_recognize pivot posexplode",
        "posexplode_outer range recursion recursive session_window stack table transform unpivot values",
        "variant_explode variant_explode_outer window",
    )
    for word in words.split()
)
#: Of what the parser says, that by which no query is one of Spark's either.
_BROKEN = re.compile(
    r"Invalid expression / Unexpected token|Expecting |Expected (END after CASE|table name)"
    r"|Required keyword: '\w+' missing for <class '[\w.]+\.(GT|GTE|LT|LTE|EQ|NEQ|And|Or|Add|Sub|Mul|Like|In|Not)'>"
    # Not of WHERE, HAVING or LIMIT: where nothing is behind them, they may be the name that a table is given.
    r"|Required keyword: '\w+' missing for <class '[\w.]+\.(Between|Order|Sort|Union|Intersect|Except)'>"
)


@dataclass(frozen=True)
class Sources:
    """What the tables are that the queries of a contract may name.

    Attributes:
        own: the name of the contract's table, in its parts; none where it is not known.
        columns_of: the columns of any table.
    """

    own: tuple[str, ...] = ()
    columns_of: ColumnsOfParts = field(default=lambda _: ())


def check_queries(
    drafts: Sequence[Draft], types: Mapping[str, str | None], sources: Sources, findings: Findings
) -> None:
    """Note queries and conditions that are no Spark SQL, and columns and tables in queries that are not there.

    Args:
        drafts: rules, each well-formed otherwise.
        types: the columns of the mirror, as it is stored; none where nobody declares them.
        sources: what names of tables stand for.
        findings: where problems go.
    """
    for draft in drafts:
        if draft.expectation == SQL:
            column = "`" + draft.column.replace("`", "``") + "`" if draft.column is not None else None
            at: Place = (*draft.place, "query")
            tree = _check_query(query_of(draft, quote(_TABLE), column), "{object}", at, types, sources, findings)
            _check_number(tree, at, findings)
        elif ROWS_QUERY in draft.kwargs:
            at = (*draft.place, "kwargs", ROWS_QUERY)
            _check_query(rows_query_of(draft, quote(_TABLE)), "{batch}", at, types, sources, findings)
        for text in _conditions(draft):
            _check_condition(text, (*draft.place, "kwargs", "row_condition"), findings)


def _conditions(draft: Draft) -> list[str]:
    """The texts that Spark would read as one expression each."""
    stated = draft.kwargs.get("row_condition")
    if isinstance(stated, str) and draft.kwargs.get("condition_parser") != "spark":
        return []  # Great Expectations reads it
    return list(spark_texts(stated))


def _check_condition(text: str, at: Place, findings: Findings) -> None:
    tree, broken = _parsed(f"SELECT {text}", "row_condition")
    if broken is None and tree is not None:
        given = {key for key, value in tree.args.items() if value} - {"expressions"}
        if len(tree.expressions) != 1 or given & {"from_", "where", "group", "having", "order", "limit"}:
            broken = "row_condition is not one expression."
    if broken is not None:
        findings.add(at, broken, "Mend it: it is what stands behind WHERE in Spark SQL.")


def _check_query(
    query: str, word: str, at: Place, types: Mapping[str, str | None], sources: Sources, findings: Findings
) -> "exp.Expr | None":
    """Note what is wrong with a query, and return it where it can be read."""
    tree, broken = _parsed(query, "the query")
    if broken is not None:
        findings.add(at, broken.replace(quote(_TABLE), word), "Mend it; the syntax is Spark SQL's.")
    if tree is None:
        return None
    names = _Names.of(tree, types, sources)
    for missing in dict.fromkeys(names.missing_tables()):
        do = "Mend its name, as pipeline.yaml has it, or mirror it too."
        findings.add(at, f"the query reads {missing[:80]}, and there is no such table.", do)
    if not types or not _NAMING.isdisjoint(words_of(query)):
        return tree
    for column, there in dict.fromkeys(names.missing_columns()):
        near = nearest(column, names.columns(there))
        do = f"Did you mean {near}?" if near else "Declare it under properties." if there is None else "Mend its name."
        why = "which is not declared" if there is None else f"which {there} does not have"
        findings.add(at, f"the query names the column {column[:80]!r}, {why}.", do)
    return tree


def _check_number(tree: "exp.Expr | None", at: Place, findings: Findings) -> None:
    """Note a query that gives several columns; what a star gives, or how many rows there are, only Spark can tell."""
    from sqlglot import exp

    given = tree.expressions if isinstance(tree, exp.Select) else []
    if len(given) > 1 and not any(one.is_star for one in given):
        findings.add(at, f"the query gives {len(given)} columns.", "Write one that selects one number.")


def _parsed(text: str, what: str) -> tuple["exp.Expr | None", str | None]:
    """Return a text's one statement, and what is wrong with it; neither where only Spark can tell."""
    import sqlglot
    from sqlglot.errors import ParseError, TokenError

    if _is_not_shared(text):
        return None, None
    try:
        found = [one for one in sqlglot.parse(text, read="spark") if one is not None]
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        if not _BROKEN.match(str(first.get("description", ""))):
            return None, None
        return None, _told(first, text, what)
    except (TokenError, RecursionError, ValueError):
        return None, None
    if len(found) > 1:
        return None, f"{what} is more than one statement."
    tree = found[0] if found else None
    unfinished = _unfinished(tree, text) if tree is not None else None
    return (tree, None) if unfinished is None else (None, f"{what} is not Spark SQL: {unfinished}.")


def _unfinished(tree: "exp.Expr", text: str) -> str | None:
    """Say what is left open in a statement that the parser takes as it is, and Spark does not."""
    import sqlglot
    from sqlglot import exp

    # Not `words_of`, which leaves out names between backticks, texts and numbers: behind a comma may stand one of them.
    kinds = [token.token_type.name for token in sqlglot.tokenize(text, read="spark")]
    kinds = [kind for kind in kinds if kind != "SEMICOLON"]
    before, last = kinds[-2:] if len(kinds) > 1 else (None, None)
    if last == "COMMA":
        return "nothing stands behind its last comma"
    # With AS or a dot before it, it is a name.
    is_open = last in {"ON", "USING"} and before not in {"ALIAS", "DOT"}
    if is_open and tree.find(exp.Join) is not None:
        return "nothing stands behind the ON or USING of its last join"
    if any(not any(group.args.values()) for group in tree.find_all(exp.Group)):
        return "nothing stands behind GROUP BY"
    if any(not any(value for key, value in one.args.items() if key != "this") for one in tree.find_all(exp.In)):
        return "nothing stands between the parentheses of IN"
    return None


def _is_not_shared(text: str) -> bool:
    """Whether a text has a part of the language that only Spark reads as Spark does."""
    words = words_of(text)
    runs = {(sign, len(list(run))) for sign, run in groupby(words) if sign in {":", ">"}}
    # Of colons only those of a cast come in twos: a single one is a path into a variant.
    is_path = any(sign == ":" and length != len("::") for sign, length in runs)
    return not _NOT_SHARED.isdisjoint(words) or is_path or (">", len(">>>")) in runs or ("|", ">") in pairwise(words)


def _told(found: Mapping[str, object], text: str, what: str) -> str:
    """Say where a text breaks off."""
    before, token = str(found.get("start_context", "")).split(), str(found.get("highlight", ""))
    near = " ".join([*before[-1:], token]).strip()
    where = f", in line {found['line']} of it" if "\n" in text else ""
    return f"{what} is not Spark SQL near {near[:80]!r}{where}."


@dataclass(frozen=True)
class _Names:
    """The names in a query, by what they can stand for.

    Attributes:
        tree: the query.
        own: the columns of the contract's table.
        ours: the names by which the query reads that table.
        defined: names that the query gives to something itself, wherever in it.
        tables: what each name of a table stands for: its columns, none where they are not known, None: no such table.
        aliases: the tables behind each name by which columns are called; None where it is another thing as well.
    """

    tree: "exp.Expr"
    own: Collection[str]
    ours: Collection[tuple[str, ...]]
    defined: frozenset[str]
    tables: Mapping[tuple[str, ...], Collection[str] | None]
    aliases: Mapping[str, set[tuple[str, ...]] | None]

    @classmethod
    def of(cls, tree: "exp.Expr", types: Mapping[str, str | None], sources: Sources) -> "_Names":
        """Look at every name of a query."""
        from sqlglot import exp

        every_own = {(_TABLE,), sources.own, sources.own[-1:]}
        own = {tuple(part.casefold() for part in one) for one in every_own}
        ours: list[tuple[str, ...]] = []
        parts_of = {id(one): tuple(part.name for part in one.parts) for one in tree.find_all(exp.Table)}
        ctes = {one.alias.casefold() for one in tree.find_all(exp.CTE)}
        tables: dict[tuple[str, ...], Collection[str] | None] = {}
        aliases: dict[str, set[tuple[str, ...]] | None] = dict.fromkeys(ctes)
        for table in tree.find_all(exp.Table):
            parts = parts_of[id(table)]
            if not isinstance(table.this, exp.Identifier):
                tables[("",)] = ()
                continue
            folded = tuple(part.casefold() for part in parts)
            is_cte = len(parts) == 1 and folded[0] in ctes
            if not is_cte:
                tables[parts] = types.keys() if folded in own else sources.columns_of(parts)
                ours += [parts] if folded in own else []
            called = (table.alias or parts[-1]).casefold()
            known = aliases.get(called, set())
            aliases[called] = None if is_cte or known is None else {*known, parts}
        for other in tree.find_all(exp.TableAlias):
            if other.this is not None and not isinstance(other.parent, exp.Table):
                aliases[other.name.casefold()] = None
        return cls(tree, types.keys(), ours, _defined(tree), tables, aliases)

    def missing_tables(self) -> Iterator[str]:
        """The tables that are not there."""
        yield from (".".join(parts) for parts, columns in self.tables.items() if columns is None)

    def missing_columns(self) -> Iterator[tuple[str, str | None]]:
        """The columns that are not there, each with the table that it is asked of; None for the contract's own."""
        from sqlglot import exp

        every = {name.casefold() for columns in self.tables.values() for name in columns or ()}
        is_known = all(self.tables.values())
        for column in self.tree.find_all(exp.Column):
            if isinstance(column.this, exp.Star) or column.find_ancestor(exp.Hint, exp.Table):
                continue
            first, *behind = [part.name for part in column.parts]
            if not behind:
                is_missing = is_known and self._is_plain(column.parts[0]) and first.casefold() not in every
                if is_missing and not self._has_star():
                    yield first, None
            elif (tables := self.aliases.get(first.casefold())) and first.casefold() not in every:
                yield from self._missing_of(tables, column.parts[1])

    def _missing_of(self, tables: Collection[tuple[str, ...]], column: "exp.Expr") -> Iterator[tuple[str, str | None]]:
        """A column that the tables of one name do not have."""
        known = [self.tables.get(parts) for parts in tables]
        if not all(known) or not self._is_plain(column, is_defined=False):
            return
        if not any(column.name.casefold() == name.casefold() for columns in known for name in columns or ()):
            other = next((".".join(parts) for parts in tables if parts not in self.ours), None)
            yield column.name, other

    def columns(self, table: str | None) -> list[str]:
        """The columns of a table."""
        found = next((columns for parts, columns in self.tables.items() if ".".join(parts) == table), None)
        return list(self.own if table is None else found or ())

    def _is_plain(self, part: "exp.Expr", *, is_defined: bool = True) -> bool:
        """Whether a name can be nothing but a column: no word, no column of Iceberg's or ours, nothing of the query."""
        name = part.name.casefold()
        is_word = not part.args.get("quoted") and name in WORDS
        is_given = is_defined and name in self.defined
        # Of what has no alias, Spark makes a name: `1`, `count(1)`.
        return bool(re.fullmatch(r"[^\W\d_][\w ]*", name)) and not is_word and not is_given

    def _has_star(self) -> bool:
        """Whether the fields of a struct become columns: `s.*`."""
        from sqlglot import exp

        stars = (one for one in self.tree.find_all(exp.Column) if isinstance(one.this, exp.Star))
        return any(one.parts[0].name.casefold() not in self.aliases for one in stars if one.table)


def _defined(tree: "exp.Expr") -> frozenset[str]:
    """Names that a query gives to something: aliases, arguments of lambdas, and fields, by which columns are called."""
    from sqlglot import exp

    # What is a text and has no alias is a column of its own name.
    names = {one.name.casefold() for one in tree.find_all(exp.Literal) if one.is_string} | {"grouping__id"}
    for one in tree.find_all(exp.Identifier):
        parent = one.parent
        is_column = isinstance(parent, exp.Column) and len(parent.parts) == 1
        is_using = isinstance(parent, exp.Join) and one.arg_key == "using"
        if not is_column and not is_using and not isinstance(parent, exp.Table):
            names.add(one.name.casefold())
    return frozenset(names)
