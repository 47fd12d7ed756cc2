"""Contract files, and what the check says of them."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent

from cdc_materializer.contract import lint
from cdc_materializer.report.models import LintProblem

HEAD = """\
apiVersion: v3.0.2
kind: DataContract
id: shop-orders
version: 1.0.0
status: active
schema:
  - name: orders
    properties:
      - {name: id, primaryKey: true, physicalType: bigint}
"""

#: Writes a contract with these properties.
Write = Callable[[str], Path]


def write(folder: Path, properties: str) -> Path:
    """Write a contract with an `id` column (line 9) and these properties, which begin at line 10."""
    path = folder / "orders.yaml"
    path.write_text(HEAD + indent(dedent(properties).strip("\n"), "      ") + "\n", encoding="utf-8")
    return path


def problems_of(path: Path, columns: dict[str, str] | None = None) -> list[LintProblem]:
    """Return what the check finds in one file."""
    return lint(path, columns).files[0].problems
