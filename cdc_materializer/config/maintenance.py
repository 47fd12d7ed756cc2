"""What pipeline.yaml says of maintenance: when it pays, what it keeps; and of how long raw keeps messages."""

from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from cdc_materializer.config.values import Duration, Settings, refusal

#: What `raw.retention` may be: raw is what everything else is made of again.
FOREVER = "forever"
_DAY = timedelta(days=1)


def _forever(given: Any) -> Any:  # noqa: ANN401 - whatever the file has
    if given != FOREVER:
        raise refusal(
            "asks raw to forget messages, which no version does yet: a change that comes late, is sent again or is "
            "held back is folded with all earlier ones of its row, and without them rows would be wrong",
            "Leave it out. `cdcm maintain` makes raw smaller without losing a message; docs/maintenance.md says more.",
        )
    return given


def _a_day_or_more(given: timedelta) -> timedelta:
    if given < _DAY:
        raise refusal("is less than `1d`, and a file of a commit that goes on would be taken for an orphan")
    return given


class RawSettings(Settings):
    """What a raw table keeps."""

    retention: Annotated[
        str, BeforeValidator(_forever), WithJsonSchema({"type": "string", "enum": [FOREVER], "default": FOREVER})
    ] = Field(default=FOREVER, description="How long raw keeps messages: `forever`; no other is possible yet.")


class MaintenanceConfig(Settings):
    """When rewriting files pays, and what is kept."""

    follow: bool = Field(
        default=True, description="Whether `run --follow` maintains tables by itself, between their batches."
    )
    ratio: int = Field(
        default=5,
        ge=1,
        le=1000,
        description="The most bytes that may be rewritten for each byte that readers are spared by it.",
    )
    keep_snapshots: Duration = Field(
        default=timedelta(days=5),
        description="How long snapshots are kept, and with them earlier states of the tables.",
        json_schema_extra={"default": "5d"},
    )
    keep_snapshots_max: int = Field(
        default=500,
        ge=1,
        description="How many snapshots a table keeps at most; those of the last hour stay, however many they are.",
    )
    orphans_after: Annotated[Duration, AfterValidator(_a_day_or_more)] = Field(
        default=timedelta(days=3),
        description="How old a file that belongs to no snapshot has to be to be deleted; `1d` or more.",
        json_schema_extra={"default": "3d"},
    )
