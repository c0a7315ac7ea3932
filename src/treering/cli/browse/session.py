"""One session: views and actions at the nodes of its tree."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType

from treering.api.store import Store
from treering.api.view import View
from treering.cli.browse import writing
from treering.cli.browse.asking import Ask, Confirm
from treering.cli.browse.reading import ReadingScreen
from treering.cli.browse.sources import Context, Conversation, Difference, Source
from treering.cli.browse.tree import TreeScreen
from treering.cli.text import short_id


class SessionScreen(TreeScreen):
    """The tree, with a key for each action at the node under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "log", "Log"),
        Binding("c", "context", "Context"),
        Binding("m", "mark", "Mark", show=False),
        Binding("d", "diff", "Diff"),
        Binding("l,L", "label", "Label"),
        Binding("b", "branch", "Branch"),
        Binding("r", "rewind", "Rewind"),
        Binding("f", "fork", "Fork"),
        Binding("y,ctrl+y", "copy", "Copy"),
        Binding("question_mark,f1", "help", "Keys"),
        Binding("s", "switch", "Go on at the head here", show=False),
        Binding("slash", "find", "Search in this session", show=False),
        Binding("ctrl+o", "cycle(1)", "Filter"),
    ]

    def on_rows_chosen(self) -> None:
        """Show the conversation."""
        self.action_log()

    def _open(self, what: str, source: Callable[[View, str], Source]) -> None:
        view, node = self._view, self._at()
        if view is not None and node is not None:
            self.app.push_screen(ReadingScreen(f"{what} {short_id(node)}", source(view, node)))

    def action_log(self) -> None:
        """Show the conversation down to the node."""
        self._open("conversation down to", Conversation)

    def action_context(self) -> None:
        """Show the context at the node."""
        self._open("what the model sees at", Context)

    def action_diff(self) -> None:
        """Show the difference from the mark to the node; without a mark, from the node to the current node."""

        def compared(view: View, node: str) -> Source:
            return Difference(view, node, None) if self._mark is None else Difference(view, self._mark, node)

        self._open("difference at", compared)

    def action_find(self) -> None:
        """Search in this session."""
        self.browser.search((self._store, self._session))

    def action_copy(self) -> None:
        """Copy an id, or a command or code that continues the session."""
        if (layout := self._layout) is None:
            return
        node = [("node", name)] if (name := self._at()) is not None else []
        self.browser.copy((*self.browser.ways(layout.info.namespace, self._session), *node))

    def _ask(
        self, question: str, write: Callable[[Store, str, str, str], str], value: str = "", *, needed: bool
    ) -> None:
        """Ask for a text, and write it at the node under the cursor."""
        if (node := self._at()) is None:
            return

        def take(answer: str | None) -> None:
            if answer is None or (needed and not answer):
                self.say("nothing was written")
            else:
                self._write(node, lambda: write(self._store, self._session, node, answer))

        self.app.push_screen(Ask(f"{question} {short_id(node)}", value), take)

    def _write(self, node: str, work: Callable[[], str]) -> None:
        async def run() -> None:
            done = await self.write(work, doing="writing")
            if done is not None:
                await self._look(node)
                self.say(done, "green")

        self.begin(run())

    def action_label(self) -> None:
        """Label the node."""
        label = self._layout.own_labels.get(self._at() or "", "") if self._layout is not None else ""
        self._ask("label, empty to remove it, of", writing.label, label, needed=False)

    def action_branch(self) -> None:
        """Make a branch at the node."""
        self._ask("name of a new branch, on which the session goes on, at", writing.branch, needed=True)

    def action_fork(self) -> None:
        """Make a new session from the path to the node."""
        self._ask("name of a new session, with the path to", writing.fork, needed=True)

    def action_rewind(self) -> None:
        """Go back to the node."""
        layout, node = self._layout, self._at()
        if layout is None or node is None:
            return
        question = f"go back to {short_id(node)}: {layout.head!r} will stand there, what came after stays as a branch"
        work = partial(writing.rewind, self._store, self._session, node)
        self.app.push_screen(Confirm(question), lambda answer: self._write(node, work) if answer else None)

    def action_switch(self) -> None:
        """Continue at the head that points to the node."""
        layout, node = self._layout, self._at()
        if layout is None or node is None:
            return
        heads = [head for head in layout.heads.get(node, ()) if head != layout.head]
        if heads:
            self._write(node, lambda: writing.switch(self._store, self._session, heads[0]))
        else:
            self.say("no other head stands here: b makes a branch, r goes back to here", "yellow")
