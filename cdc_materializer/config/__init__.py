"""pipeline.yaml as frozen models, read once; nothing else reads YAML or the environment (design section 4.2).

Users of the configuration import all of it from here.
"""

from cdc_materializer.config.connections import BasicAuth, CatalogConfig, RegistryConfig, SourceConfig, TlsFiles
from cdc_materializer.config.databases import DatabaseConfig
from cdc_materializer.config.globs import RefusedTopic, ResolvedTables, find_tables, resolve_tables
from cdc_materializer.config.maintenance import MaintenanceConfig
from cdc_materializer.config.masks import MasksConfig
from cdc_materializer.config.pipeline import Config, PipelineFile, config_json_schema, load_config
from cdc_materializer.config.tables import TableConfig, TableSettings
from cdc_materializer.config.values import reveal

__all__ = [
    "BasicAuth",
    "CatalogConfig",
    "Config",
    "DatabaseConfig",
    "MaintenanceConfig",
    "MasksConfig",
    "PipelineFile",
    "RefusedTopic",
    "RegistryConfig",
    "ResolvedTables",
    "SourceConfig",
    "TableConfig",
    "TableSettings",
    "TlsFiles",
    "config_json_schema",
    "find_tables",
    "load_config",
    "resolve_tables",
    "reveal",
]
