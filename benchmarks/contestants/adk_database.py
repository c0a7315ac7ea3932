"""Google ADK: its sessions in a database, here SQLite; it needs more packages than the other services."""

from __future__ import annotations

from typing import Any

from google.adk.sessions.database_session_service import DatabaseSessionService

from benchmarks.contestants.adk import Service


class Database(Service):
    """`DatabaseSessionService`."""

    def _service(self) -> DatabaseSessionService:
        return DatabaseSessionService(f"sqlite+aiosqlite:///{self.place}/adk-database.sqlite")

    def _let_go(self) -> None:
        service: Any = self.service
        self._run(service.close())
