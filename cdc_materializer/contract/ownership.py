"""Whom a contract names for its data: owners, the team, where to ask. Told in reports, part of no rule."""

from collections.abc import Iterator, Sequence

from open_data_contract_standard.model import CustomProperty, OpenDataContractStandard, SchemaObject, Team, TeamMember

from cdc_materializer.contract.model import Contact, ContactKind

_OWNER = "owner"


def read_contacts(document: OpenDataContractStandard, table: SchemaObject) -> tuple[Contact, ...]:
    """Return whom to tell of a table: owners first, then the team, its people, and the channels.

    Args:
        document: the contract.
        table: the one that is meant; an `owner` among its custom properties comes before the contract's.
    """
    found = [*_owners(table.customProperties), *_owners(document.customProperties)]
    found += [*_team(document.team), *_channels(document)]
    return tuple(sorted(dict.fromkeys(found), key=lambda contact: not contact.is_owner))


def _owners(properties: Sequence[CustomProperty] | None) -> Iterator[Contact]:
    for entry in properties or ():
        if entry.property == _OWNER and isinstance(entry.value, str) and entry.value.strip():
            yield Contact(entry.value.strip(), ContactKind.OWNER, _OWNER)


def _team(team: Team | list[TeamMember] | None) -> Iterator[Contact]:
    if isinstance(team, Team) and team.name:
        yield Contact(team.name, ContactKind.TEAM)
    members = team.members if isinstance(team, Team) else team
    for member in members or ():
        name = member.name or member.username
        # Who has left is told with a date, and often with a successor, who is a member too.
        if name and not member.dateOut:
            yield Contact(name, ContactKind.PERSON, member.role, member.username if member.username != name else None)


def _channels(document: OpenDataContractStandard) -> Iterator[Contact]:
    for support in document.support or ():
        name = support.channel or support.url
        if name:
            yield Contact(name, ContactKind.CHANNEL, support.tool, support.url if support.url != name else None)
