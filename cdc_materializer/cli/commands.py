"""How commands are found by name: those there are, and those that the design names and a later version brings."""

from collections.abc import Mapping
from typing import Any

from typer.core import TyperGroup

from cdc_materializer.errors import UsageError
from cdc_materializer.names import nearest, shown

#: Commands that are designed and not built yet, by the group they belong to; the reference page lists them.
LATER: Mapping[str, tuple[str, ...]] = {
    "cdcm": ("maintain",),
}


class Commands(TyperGroup):
    """A group of commands whose unknown ones get an answer that helps."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - typer keeps these types to itself
        """Find the command that the arguments name.

        Raises:
            UsageError: there is none; it says whether one is near, or comes later.
        """
        name = args[0]
        if name not in self.commands and not name.startswith("-"):
            raise _unknown(ctx.command_path, str(self.name), name, list(self.commands))
        return super().resolve_command(ctx, args)


def _unknown(path: str, group: str, name: str, known: list[str]) -> UsageError:
    if name in LATER.get(group, ()):
        return UsageError(f"`{path} {name}` comes with a later version.", f"This one has: {', '.join(known)}.")
    near = nearest(name, known)
    do = f"Did you mean `{path} {near}`?" if near else f"See `{path} --help`."
    return UsageError(f"`{path}` has no command `{shown(name)}`.", do)
