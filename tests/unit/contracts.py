"""Contract files, and what the check says of them."""

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from textwrap import dedent, indent

import yaml
from jsonschema.validators import validator_for

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


def of_json_schema(schema: str) -> str:
    """A column of texts that are to match a JSON schema, which is in line 15 of the file."""
    return f"""
        - name: t
          physicalType: text
          quality:
            - type: custom
              engine: greatExpectations
              implementation:
                type: expect_column_values_to_match_json_schema
                kwargs: {{json_schema: {schema}}}
        """


def problems_of(path: Path, columns: dict[str, str] | None = None) -> list[LintProblem]:
    """Return what the check finds in one file."""
    return lint(path, columns).files[0].problems


def against_odcs(path: Path) -> list[str]:
    """What is not so in a file as ODCS has it, by the schema that `datacontract lint` takes for its version."""
    document = yaml.safe_load(path.read_text("utf-8"))
    version = document["apiVersion"].removeprefix("v")
    schema = json.loads(files("datacontract").joinpath("schemas", f"odcs-{version}.schema.json").read_text("utf-8"))
    return [error.message for error in validator_for(schema)(schema).iter_errors(document)]
