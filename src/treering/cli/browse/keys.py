"""The page of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from treering.cli.browse.blocks import line_of


class KeysScreen(ModalScreen[None]):
    """Lists keys.

    Args:
        keys: The keys, by what they do.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,f1,question_mark,enter", "dismiss", "Back")]

    def __init__(self, keys: Mapping[str, Sequence[str]]) -> None:
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        """Put the parts together."""
        with VerticalScroll():
            for what, keys in self._keys.items():
                yield Static(line_of((f"{'  '.join(keys):<16}  ", "bold cyan"), (what, "")), markup=False)
