"""Questions to the user: for a line of text, for a confirmation, for a choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static

from treering.cli.browse.blocks import line_of
from treering.cli.text import one_line


class _Question(ModalScreen[str | None]):
    """A question over another screen; the answer is None if the user cancels."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Leave it")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def asked(self, keys: str) -> ComposeResult:
        """Yield the question, and the keys that answer it."""
        shown = line_of((self._question, "bold"))
        shown.no_wrap = False
        yield Static(shown, markup=False)
        yield Static(Text(keys, style="dim"), markup=False)


class Ask(_Question):
    """Asks for a line of text.

    Args:
        question: What is wanted.
        value: The initial text.
    """

    def __init__(self, question: str, value: str = "") -> None:
        super().__init__(question)
        self._value = one_line(value)

    def compose(self) -> ComposeResult:
        """Put the parts together."""
        with Vertical():
            yield from self.asked("enter: do it   esc: leave it")
            yield Input(self._value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the answer."""
        self.dismiss(event.value.strip())


class Confirm(_Question):
    """Asks whether to do something; the answer is `yes` or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,y", "dismiss('yes')", "Do it"),
        Binding("n", "dismiss(None)", "Leave it"),
    ]

    def compose(self) -> ComposeResult:
        """Put the parts together."""
        with Vertical():
            yield from self.asked("enter, y: do it   esc, n: leave it")


class Choose(_Question):
    """Asks for one of a few texts.

    Args:
        question: What is wanted.
        texts: The texts, each with a word for it.
    """

    def __init__(self, question: str, texts: Sequence[tuple[str, str]]) -> None:
        super().__init__(question)
        self._texts = texts

    def compose(self) -> ComposeResult:
        """Put the parts together."""
        with Vertical():
            yield from self.asked("enter: take it   esc: leave it")
            yield OptionList(*(line_of((f"{word:<9}", "dim"), (text, "")) for word, text in self._texts), markup=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take the answer."""
        self.dismiss(self._texts[event.option_index][1])
