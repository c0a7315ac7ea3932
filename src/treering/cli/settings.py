"""The store of a command. The options may come before or after the command."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from treering.api.store import Store
from treering.cli.text import one_line
from treering.errors import UsageError
from treering.format.paths import prefix_of
from treering.kinds import Kind
from treering.storage.open import location_of
from treering.store.place import Place, open_place

F = TypeVar("F", bound=Callable[..., Any])

STORE_VARIABLE = "TREERING_STORE"


class Settings:
    """The values of the options; those after the command override those before it."""

    def __init__(self) -> None:
        self.store: str | None = None
        self.store_from_environment = False
        self.namespace: tuple[str, ...] = ()
        self.single_writer = False
        self.debug = False
        self._opened = False

    def open(self) -> Store:
        """Open the store and close it when the command ends. Nothing is created by opening."""
        return Store(self.place())

    def place(self) -> Place:
        """Open the store for commands that need its driver.

        Raises:
            UsageError: There is a file of that name.
        """
        self._opened = True
        if (folder := self._folder) is not None and os.path.isfile(folder):
            raise UsageError(f"a store is a folder, and this is a file. place={folder!r}", kind=Kind.OPTIONS)
        return self.elsewhere(self.target, self.namespace)

    def tell_what_is_missing(self) -> None:
        """Print that the store does not exist, if a command used a folder without a store and made none."""
        if self._opened and (folder := self.missing_folder):
            told = f"there is no store at {folder} yet; --store or {STORE_VARIABLE} names another one"
            click.echo(one_line(told).encode(errors="replace"), err=True)

    @property
    def missing_folder(self) -> str | None:
        """The folder of the store, if it does not exist; None for a store elsewhere."""
        folder = self._folder
        return folder if folder is not None and not os.path.exists(folder) else None

    @property
    def _folder(self) -> str | None:
        """The folder of the store; None for a store elsewhere."""
        try:
            folder = location_of(self.target)
        except OSError:  # the path is relative, and the working folder is gone
            return None
        return folder if os.path.isabs(folder) else None

    def options_for(self, namespace: Sequence[str]) -> list[str]:
        """Return the options with which another command finds a namespace of this store."""
        store = ["--store", self.target] if self.store else []
        return [*store, *["--single-writer"] * self.single_writer, *(f"--namespace={name}" for name in namespace)]

    def elsewhere(self, target: str, namespace: Sequence[str]) -> Place:
        """Open another store, or namespaces of it, with the same options."""
        place = open_place(target, single_writer=self.single_writer).at(prefix_of(namespace))
        click.get_current_context().call_on_close(place.driver.close)
        return place

    @property
    def target(self) -> str:
        """The path or URL of the store."""
        return self.store or default_store()

    def keep(self, context: click.Context, parameter: click.Parameter, value: object) -> None:
        """Store the value of an option."""
        name = parameter.name or ""
        if name == "store" and value == "":  # as of a variable of the shell that is not set
            raise click.BadParameter("it is empty; without this option it is the default store", context, parameter)
        if value not in (None, False, ()):
            setattr(self, name, value)
        if name == "store" and value is not None:
            self.store_from_environment = context.get_parameter_source(name) is ParameterSource.ENVIRONMENT


def environment() -> Mapping[str, str]:
    """The environment, for finding the folders of other programs."""
    return os.environ  # noqa: TID251  # only the command line reads it


def default_store() -> str:
    """The default folder for sessions."""
    import platformdirs

    return platformdirs.user_data_dir("treering", appauthor=False)


def _keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
    context.ensure_object(Settings).keep(context, parameter, value)


def store_options(*, variable: str | None = None) -> Callable[[F], F]:
    """Add the options for the store; the environment variable `variable` is their default."""
    options = (
        click.option(
            "--store", metavar="PLACE", envvar=variable, expose_value=False, callback=_keep,
            help=f"A folder, s3://bucket/prefix or another URL.  [env var: {STORE_VARIABLE}]",
        ),
        click.option(
            "--namespace", metavar="NAME", multiple=True, expose_value=False, callback=_keep,
            help="A part of the store, as for one tenant; one more lies inside it.",
        ),
        click.option(
            "--single-writer", is_flag=True, expose_value=False, callback=_keep,
            help="Promise that no other process writes; needed for stores without conditional writes.",
        ),
        click.option(
            "--debug", is_flag=True, expose_value=False, callback=_keep,
            help="Show where in the program an error came from.",
        ),
    )  # fmt: skip

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document, for programs.")
as_of_option = click.option(
    "--as-of",
    metavar="POINT",
    help="The session as it was when it had so many records, or got this node or checkpoint.",
)
"""`--at`, which other commands have, is a place in the current session instead."""
