"""A query line that is edited while a list has the focus: letters go to the line, arrows to the list, as in pi."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import Static

from treering.cli.browse.blocks import line_of

QUERY_CHARACTERS_MAX = 200


class Query(Static):
    """The query line.

    Args:
        name: The purpose of the words.
        hint: Shown while the line is empty.
    """

    class Changed(Message):
        """The words have changed."""

    def __init__(self, name: str, hint: str) -> None:
        super().__init__(markup=False)
        self._called = name
        self._hint = hint
        self.text = ""
        self.begun = False
        """Whether a text, or `/`, was typed."""

    def on_mount(self) -> None:
        """Show the hint."""
        self._draw()

    def put(self, text: str, *, begun: bool = True) -> None:
        """Replace the words."""
        changed, self.text, self.begun = text != self.text, text[:QUERY_CHARACTERS_MAX], begun
        self._draw()
        if changed:
            self.post_message(self.Changed())

    def type(self, event: events.Key) -> bool:
        """Handle a key if it edits the text; return whether it does."""
        if event.key == "backspace":
            self.put(self.text[:-1], begun=bool(self.text))
        elif event.key == "ctrl+u":
            self.put("", begun=False)
        elif event.key == "ctrl+w":
            self.put(self.text.rstrip().rpartition(" ")[0], begun=True)
        elif event.is_printable and event.character:
            slash = event.character == "/" and not self.begun
            self.put(self.text + ("" if slash else event.character))
        else:
            return False
        return True

    def _draw(self) -> None:
        hint = ("", "") if self.begun else (self._hint, "dim")
        shown: Text = line_of((f"{self._called} ", "bold"), (self.text, ""), ("▏" if self.begun else "", "bold"), hint)
        self.update(shown)
