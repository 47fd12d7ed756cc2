"""Contracts: what a table promises, read from ODCS files, and the judge that holds rows to it."""

from cdc_materializer.contract.model import Action, Contract, ContractColumn, Rule, Scope
from cdc_materializer.contract.odcs import lint, load_contract

__all__ = ["Action", "Contract", "ContractColumn", "Rule", "Scope", "lint", "load_contract"]
