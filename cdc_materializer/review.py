"""`cdcm report`: the violation report of a pipeline, from its tables and contract files, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import Config, TableConfig
from cdc_materializer.errors import UsageError
from cdc_materializer.report.groups import StatedRule
from cdc_materializer.report.past import parse_time
from cdc_materializer.report.samples import Sampling
from cdc_materializer.report.violation_models import Contact, ViolationReport
from cdc_materializer.report.violations import ContractFile, violation_report
from cdc_materializer.status import configured_tables

if TYPE_CHECKING:
    from cdc_materializer.catalog.catalog import Tables
    from cdc_materializer.contract import Contract
    from cdc_materializer.names import TableName


def review(
    config: Config,
    now: datetime,
    names: Sequence[str] = (),
    when: str | None = None,
    sampling: Sampling | None = None,
) -> ViolationReport:
    """Report what the contract did not let through, and what else is held back or was published with a remark.

    Args:
        config: from `load_config`.
        now: the time, with a zone.
        names: the mirrors; all for none.
        when: a past time in ISO 8601 or the id of a batch: the report as it was then.
        sampling: how values of a few rows are read; none are shown if left out.

    Raises:
        CdcError: as `configured_tables` and `violation_report`.
    """
    at = parse_time(when) if when is not None else None
    if at is not None and at > now:
        raise UsageError("That time is still to come.", "Name a past one; left out, the report is of now.")
    tables = configured_tables(config, names, refuse=False)
    lake = open_tables(config.catalog)
    contracts = {
        name: found if isinstance(found, UsageError) else _as_reported(found)
        for name, found in _contracts(config, tables, lake).items()
    }
    return violation_report(config.name, tables, lake, as_of=now, when=when, contracts=contracts, sampling=sampling)


def reviewed_contracts(config: Config, names: Sequence[str] = ()) -> Mapping[str, Contract]:
    """Return the contracts by name of the mirror, those that can be followed.

    A file that cannot be followed stops runs and `contract lint`, but no report, which says so.

    Args:
        config: from `load_config`.
        names: the mirrors; all for none.

    Raises:
        CdcError: as `configured_tables`.
    """
    read = _contracts(config, configured_tables(config, names), open_tables(config.catalog))
    return {name: found for name, found in read.items() if not isinstance(found, UsageError)}


def _contracts(config: Config, tables: Sequence[TableConfig], lake: Tables) -> Mapping[str, Contract | UsageError]:
    """The contracts by name of the mirror, or why one cannot be followed."""
    found: dict[str, Contract | UsageError] = {}
    for table in tables:
        if table.contract is None:
            continue
        from cdc_materializer.contract import load_contract
        from cdc_materializer.run.contracts import refuse_without_key

        name = str(table.mirror)
        try:
            contract = load_contract(table.contract, name, config.root)
            refuse_without_key(contract, config)
            found[name] = contract.of_table(_key_of(lake, table.mirror)) if contract.of_key else contract
        except UsageError as error:
            found[name] = error
    return found


def _key_of(lake: Tables, mirror: TableName) -> frozenset[str]:
    """The columns by which a mirror tells rows apart; none where there is no mirror yet."""
    columns = lake.columns_of(mirror)
    return columns[1] if columns is not None else frozenset()


def _as_reported(contract: Contract) -> ContractFile:
    """What a report says of a contract."""
    from cdc_materializer.contract.wording import in_words

    return ContractFile(
        name=contract.name,
        version=contract.version,
        fingerprint=contract.fingerprint,
        rules=[
            StatedRule(rule.name, rule.description or in_words(rule), rule.told_action, rule.scope, rule.column)
            for rule in contract.rules
        ],
        max_quarantined=str(contract.max_quarantined) if contract.max_quarantined is not None else None,
        contacts=[
            Contact(name=one.name, kind=one.kind.value, role=one.role, address=one.address) for one in contract.contacts
        ],
    )
