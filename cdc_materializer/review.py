"""`cdcm report`: the violation report of a pipeline, from its tables and contract files, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from cdc_materializer.catalog import open_tables
from cdc_materializer.config import Config, TableConfig
from cdc_materializer.errors import ContractInvalid, UsageError
from cdc_materializer.report.past import parse_time
from cdc_materializer.report.violation_models import ViolationReport
from cdc_materializer.report.violations import ContractFile, violation_report
from cdc_materializer.status import configured_tables


def review(config: Config, now: datetime, names: Sequence[str] = (), when: str | None = None) -> ViolationReport:
    """Report what the contract did not let through, and what else is held back or was published with a remark.

    Args:
        config: from `load_config`.
        now: the time, with a zone.
        names: the mirrors; all for none.
        when: a past time in ISO 8601 or the id of a batch: the report as it was then.

    Raises:
        CdcError: as `configured_tables` and `violation_report`.
    """
    at = parse_time(when) if when is not None else None
    if at is not None and at > now:
        raise UsageError("That time is still to come.", "Name a past one; left out, the report is of now.")
    tables = configured_tables(config, names)
    contracts = _contract_files(tables)
    return violation_report(config.name, tables, open_tables(config.catalog), as_of=now, when=when, contracts=contracts)


def _contract_files(tables: Sequence[TableConfig]) -> Mapping[str, ContractFile]:
    """Read the contracts; a file that cannot be followed stops runs and `contract lint`, but no report."""
    found: dict[str, ContractFile] = {}
    for table in tables:
        if table.contract is None:
            continue
        from cdc_materializer.contract import load_contract

        try:
            contract = load_contract(table.contract, str(table.mirror))
        except ContractInvalid:
            continue
        found[str(table.mirror)] = ContractFile(
            name=contract.name,
            version=contract.version,
            fingerprint=contract.fingerprint,
            rules={rule.name: rule.description or _in_words(rule.expectation) for rule in contract.rules},
        )
    return found


def _in_words(expectation: str) -> str:
    """Say an expectation by its own name: ``expect_column_values_to_be_unique`` for one."""
    return f"Expects {expectation.removeprefix('expect_').replace('_', ' ')}."
