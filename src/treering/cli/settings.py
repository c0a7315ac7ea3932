"""Which store a command works on. The options may stand before the command or behind it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from treering.api.store import Store
from treering.format.paths import prefix_of
from treering.store.place import Place, open_place

F = TypeVar("F", bound=Callable[..., Any])

STORE_VARIABLE = "TREERING_STORE"


class Settings:
    """What the options said; those behind the command count more than those before it."""

    def __init__(self) -> None:
        self.store: str | None = None
        self.store_from_environment = False
        self.namespace: tuple[str, ...] = ()
        self.single_writer = False
        self.debug = False

    def open(self) -> Store:
        """Open the store and close it when the command ends. Nothing is created by opening."""
        return Store(self.place())

    def place(self) -> Place:
        """Open the store for what needs its driver, too."""
        return self.elsewhere(self.target, self.namespace)

    def elsewhere(self, target: str, namespace: Sequence[str]) -> Place:
        """Open another store, or the part of it that lies in some namespaces, under the same promises."""
        place = open_place(target, single_writer=self.single_writer).at(prefix_of(namespace))
        click.get_current_context().call_on_close(place.driver.close)
        return place

    @property
    def target(self) -> str:
        """Where the store is."""
        return self.store or default_store()

    def keep(self, context: click.Context, parameter: click.Parameter, value: object) -> None:
        """Take over what an option said."""
        name = parameter.name or ""
        if value not in (None, False, ()):
            setattr(self, name, value)
        if name == "store" and value is not None:
            self.store_from_environment = context.get_parameter_source(name) is ParameterSource.ENVIRONMENT


def environment() -> Mapping[str, str]:
    """The environment, for what looks at the folders of other programs."""
    return os.environ  # noqa: TID251  # this is the command line, which alone reads it


def default_store() -> str:
    """The folder for sessions of users who name none."""
    import platformdirs

    return platformdirs.user_data_dir("treering", appauthor=False)


def _keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
    context.ensure_object(Settings).keep(context, parameter, value)


def store_options(*, variable: str | None = None) -> Callable[[F], F]:
    """Add the options that say which store; `variable` names it where they do not."""
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
            help="Promise that no other process writes; needed for stores that cannot swap.",
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
