"""The contracts of a run's tables: one that cannot be followed is its own table's matter, whose raw goes on landing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_materializer.contract import Contract, load_contract
from cdc_materializer.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from cdc_materializer.config import Config, TableConfig

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


def with_key(contract: Contract, config: Config) -> Contract:
    """The contract with the key of its hashes, where it has any.

    Raises:
        ConfigError: the configuration has no key for them.
    """
    if not contract.hashes:
        return contract
    if config.masks is None:
        what = f"The contract {contract.path.name} hashes columns, and {config.path.name} has no key for that."
        raise ConfigError(what, "Add `masks:` with `key: ${NAME}` (an environment variable) or a `key_file`.")
    return replace(contract, mask_key=config.masks.secret())
