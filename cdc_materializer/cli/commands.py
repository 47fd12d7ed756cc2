"""How commands are found by name, and what is said where there is none."""

from typing import Any

from typer.core import TyperGroup

from cdc_materializer.errors import UsageError
from cdc_materializer.names import nearest, shown


class Commands(TyperGroup):
    """A group of commands whose unknown ones get an answer that helps."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - typer keeps these types to itself
        """Find the command that the arguments name.

        Raises:
            UsageError: there is none; it says whether one is near.
        """
        name = args[0]
        if name not in self.commands and not name.startswith("-"):
            raise _unknown(ctx.command_path, name, list(self.commands))
        return super().resolve_command(ctx, args)


def _unknown(path: str, name: str, known: list[str]) -> UsageError:
    near = nearest(name, known)
    do = f"Did you mean `{path} {near}`?" if near else f"See `{path} --help`."
    return UsageError(f"`{path}` has no command `{shown(name)}`.", do)
