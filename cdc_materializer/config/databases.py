"""Where pipeline.yaml says that the databases themselves are, for `cdcm verify --source`."""

from datetime import timedelta

from pydantic import Field, field_validator

from cdc_materializer.config.values import Duration, Properties, Secret, Settings, holds_secret, refusal

#: What a database's address begins with, by its kind. The driver for MariaDB speaks to MySQL too.
SCHEMES = {"jdbc:postgresql://": "postgresql", "jdbc:mariadb://": "mysql", "jdbc:mysql://": "mysql"}


class DatabaseConfig(Settings):
    """A source database, read through JDBC and never written to."""

    url: str = Field(
        description="Address: `jdbc:postgresql://host:5432/database`, `jdbc:mariadb://host:3306/` or `jdbc:mysql://…`; "
        "without user, password or `?…`."
    )
    user: str = Field(description="A user who may read the tables.")
    password: Secret | None = Field(
        default=None, description="The password; take it from the environment or a file (`${NAME}`, `${file:PATH}`)."
    )
    properties: Properties = Field(
        default={}, description="Properties of the JDBC driver, passed on as they are, such as those of TLS."
    )
    slot: str | None = Field(
        default=None,
        description="PostgreSQL: the connector's replication slot; left out: all logical slots of the database count.",
    )
    partitions: int = Field(default=4, ge=1, description="How many connections read a table at one time.")
    wait: Duration = Field(
        default=timedelta(minutes=5),
        description="How long a mirror is waited for until it has what the database had when it was read, in all.",
        json_schema_extra={"default": "5m"},
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if not url.startswith(tuple(SCHEMES)):
            raise refusal(f"must begin with {', '.join(SCHEMES)}")
        if "?" in url or ";" in url or "@" in url or holds_secret(url):
            raise refusal(
                "has more in it than host, port and database",
                "Put `user`, `password` and `properties` beside it, where secrets are kept secret.",
            )
        return url

    @property
    def kind(self) -> str:
        """Which SQL it speaks: `postgresql` or `mysql`."""
        return next(kind for scheme, kind in SCHEMES.items() if self.url.startswith(scheme))
