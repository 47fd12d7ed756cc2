"""What is taken from the environment of the process."""

import os
import pwd
from pathlib import Path

import pytest

from cdc_materializer.environment import cache_folder, user_name

_NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")


@pytest.mark.parametrize("first", range(len(_NAMES)))
def test_who_runs_it_is_told_by_the_first_variable_that_says_it(monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    """In the order of the reference; empty is as unset."""
    for at, name in enumerate(_NAMES):
        monkeypatch.setenv(name, "" if at < first else f"by {name}")

    assert user_name() == f"by {_NAMES[first]}"


def test_without_a_variable_the_system_says_who_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, or by number where it knows none, as in a container."""
    for name in _NAMES:
        monkeypatch.delenv(name, raising=False)

    assert user_name() == pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    assert user_name() == str(2**31 - 7)


@pytest.mark.parametrize(("named", "there"), [("/caches", "/caches"), ("caches", "/h/.cache"), ("", "/h/.cache")])
def test_caches_are_in_their_folder_or_in_the_users(monkeypatch: pytest.MonkeyPatch, named: str, there: str) -> None:
    """A relative name is none, as the XDG base directory specification asks."""
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    monkeypatch.setenv("HOME", "/h")

    assert cache_folder() == Path(there)
