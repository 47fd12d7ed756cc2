"""The contracts of a run's tables: one that cannot be followed is its own table's matter, whose raw goes on landing."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.catalog.local_table import rows_in
from cdc_materializer.contract import Contract, load_contract
from cdc_materializer.errors import CdcError, ConfigError, UsageError
from cdc_materializer.report.groups import held_messages
from cdc_materializer.report.models import ContractChange, RunReport
from cdc_materializer.report.wording import quantity
from cdc_materializer.retry import NEVER, Deadline

if TYPE_CHECKING:
    from cdc_materializer.config import Config, TableConfig
    from cdc_materializer.names import TableName
    from cdc_materializer.progress import Backlog

_LOG = logging.getLogger(__name__)

#: A contract, or why its file cannot be followed: its rules, its masks, or the key of these.
Stated = Contract | UsageError


def read_contracts(config: Config, tables: Iterable[TableConfig]) -> dict[str, Stated]:
    """The contracts of those of some tables that have one, by the mirrors' names; raises nothing for what one says."""
    return {str(table.mirror): _read(config, table) for table in tables if table.contract is not None}


def _read(config: Config, table: TableConfig) -> Stated:
    if table.contract is None:  # no table that is asked for
        message = f"{table.mirror} has no contract"
        raise AssertionError(message)
    try:
        return with_key(load_contract(table.contract, str(table.mirror), config.root), config)
    except UsageError as error:
        return error


def readable(contracts: Mapping[str, Stated]) -> dict[str, Contract]:
    """Those that can be followed."""
    return {name: stated for name, stated in contracts.items() if isinstance(stated, Contract)}


def refusal(contracts: Mapping[str, Stated], table: TableConfig) -> UsageError | None:
    """Why a table's contract cannot be followed; None where it can, or is none."""
    stated = contracts.get(str(table.mirror))
    return stated if isinstance(stated, UsageError) else None


def refuse_unreadable(contracts: Mapping[str, Stated], tables: Iterable[TableConfig]) -> None:
    """Refuse tables one of which has a contract that cannot be followed: without it nobody knows what is masked.

    Raises:
        ContractInvalid: with file and line.
        ConfigError: the configuration has no key for its hashes.
    """
    for table in tables:
        refused = refusal(contracts, table)
        if refused is not None:
            raise refused


def refuse_all_unreadable(contracts: Mapping[str, Stated], tables: Sequence[TableConfig]) -> None:
    """Refuse tables none of which has a contract that can be followed: of others one bad one is its own table's matter.

    Raises:
        ContractInvalid, ConfigError: of the first of them, as `refuse_unreadable`.
    """
    if all(refusal(contracts, table) is not None for table in tables):
        refuse_unreadable(contracts, tables)


def with_key(contract: Contract, config: Config) -> Contract:
    """The contract with the key of its hashes, where it has any.

    Raises:
        ConfigError: the configuration has no key for them.
    """
    refuse_without_key(contract, config)
    if not contract.hashes or config.masks is None:
        return contract
    return replace(contract, mask_key=config.masks.secret())


def refuse_without_key(contract: Contract, config: Config) -> None:
    """Refuse a contract that hashes columns where the configuration names no key; what the key is, is not asked.

    Raises:
        ConfigError: says what to add.
    """
    if contract.hashes and config.masks is None:
        what = f"The contract {contract.path.name} hashes columns, and {config.path.name} has no key for that."
        raise ConfigError(what, "Add `masks:` with `key: ${NAME}` (an environment variable) or a `key_file`.")


class ContractFiles:
    """The contracts of a run that goes on and on: a file that was changed is taken up between two rounds.

    Not at the first look that finds it changed, but where the next one finds it the same: half of a file that is being
    written can be a contract too, one without the masks of its other half.
    """

    def __init__(self, config: Config, tables: Iterable[TableConfig], contracts: Mapping[str, Stated]) -> None:
        """Begin with what was read when the run began."""
        self._config, self.contracts = config, dict(contracts)
        self._tables = list(tables)
        self._seen: dict[str, bytes | None] = {}
        self._taken: dict[str, bytes | None] = {}
        self._untold = set(self.contracts) | {str(table.mirror) for table in self._tables}

    def follow(self, tables: Iterable[TableConfig]) -> None:
        """Take up tables that came since, with their contracts."""
        known = {str(table.mirror) for table in self._tables}
        came = [table for table in tables if str(table.mirror) not in known]
        self._tables += came
        self.contracts |= read_contracts(self._config, came)
        self._untold |= {str(table.mirror) for table in came}

    def look(self) -> set[str]:
        """Look at the files, and give the mirrors whose contract is to be followed from here on as it is by now."""
        stated = [table for table in self._tables if table.contract is not None]
        return {str(table.mirror) for table in stated if self._is_taken_up(table)}

    def tell(self, waiting: Sequence[Backlog], deadline: Deadline = NEVER) -> dict[str, ContractChange]:
        """Say once what those of the tables whose contract is another one have by it, as `tell_changes` does."""
        asked = [one for one in waiting if str(one.table.mirror) in self._untold and one.error is None]
        self._untold -= {str(one.table.mirror) for one in asked if refusal(self.contracts, one.table) is None}
        return tell_changes(self._config, self.contracts, asked, deadline)

    def _is_taken_up(self, table: TableConfig) -> bool:
        mirror = str(table.mirror)
        content, before = _content(table), self.contracts[mirror]
        is_steady = mirror in self._seen and self._seen[mirror] == content
        self._seen[mirror] = content
        is_known = mirror in self._taken and self._taken[mirror] == content
        # What was refused may be mended elsewhere: the key of its hashes, the rights to the file.
        if not is_steady or (is_known and isinstance(before, Contract)):
            return False
        stated = _read(self._config, table)
        if _content(table) != content:
            return False
        self._taken[mirror], self.contracts[mirror] = content, stated
        if _same(before, stated):
            return False
        self._untold.add(mirror)
        if isinstance(stated, Contract):
            _LOG.info("The contract of %s was changed, and is followed as it is by now.", mirror)
        return True


def _content(table: TableConfig) -> bytes | None:
    try:
        return Path(table.contract or "").read_bytes()
    except OSError:
        return None


def _same(before: Stated, stated: Stated) -> bool:
    """Whether two readings of a file say the same: contracts by columns and rules, refusals by their words."""
    if isinstance(before, Contract) and isinstance(stated, Contract):
        return before.fingerprint == stated.fingerprint
    return not isinstance(before, Contract) and not isinstance(stated, Contract) and str(before) == str(stated)


def tell_changes(
    config: Config, contracts: Mapping[str, Stated], waiting: Iterable[Backlog], deadline: Deadline = NEVER
) -> dict[str, ContractChange]:
    """Say which contracts are others than those that judged the mirrors' newest batches, and what that means.

    How many of the rows would be judged otherwise only judging them tells, which `cdcm contract test` and a replay do.
    """
    changes: dict[str, ContractChange] = {}
    for backlog in waiting:
        mirror = str(backlog.table.mirror)
        contract = readable(contracts).get(mirror)
        before = backlog.mirror.contract if backlog.mirror is not None else None
        now = contract.fingerprint if contract is not None else None
        # A mirror of which nothing was published has been judged by none.
        if backlog.mirror is None or not backlog.mirror.counts or before == now:
            continue
        if refusal(contracts, backlog.table) is not None:
            continue
        says = (
            f"The contract of {mirror} is another one than its newest batch was judged by. Changes from here on are "
            "judged by it, and with them the held messages of their rows. Rows that readers see are not judged again, "
            f"nor is what else is held: `cdcm quarantine release {mirror}` does that, `cdcm replay {mirror}` both."
        )
        rows, held = _counts(config, backlog.table.mirror, deadline)
        if rows is not None and held is not None:
            says += f" The mirror has {quantity(rows, 'row')} by now, and {quantity(held, 'message')} held."
        _LOG.warning("%s", says)
        changes[mirror] = ContractChange(before=before, now=now, rows=rows, held=held, says=says)
    return changes


def _counts(config: Config, mirror: TableName, deadline: Deadline) -> tuple[int | None, int | None]:
    """How many rows a mirror has, by its newest snapshot's totals, and how many messages are held; without Spark."""
    try:
        lake = open_tables(config.catalog, deadline)
        lines = lake.lines_of(mirror)
        held = lake.values_of(mirror.quarantine, ["topic", "partition", "offset", "status", "batch_id"])
    except CdcError:
        return None, None
    return rows_in(lines[0].summary) if lines else None, held_messages(held or ())


def with_changes(report: RunReport, changes: Mapping[str, ContractChange]) -> RunReport:
    """The report, with what changed contracts mean in their tables' entries."""
    told = [run.model_copy(update={"contract_change": changes.get(run.table)}) for run in report.tables]
    return report.model_copy(update={"tables": told})
