"""Which model answers, and which ones are used for other roles."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.session.backends import Backend, kill

import treering
from treering.exporters import export
from treering.importers import read

BIG = {"model": "big", "provider": "q"}
MODELS = {"smol": "p/fast", "plan": "planner"}


def in_roles(session: treering.Session) -> None:
    """Choose a model that answers, and two others."""
    session.set_model("fast", provider="p", role="smol")
    session.append("hello")
    session.set_model("big", provider="q", role="default")
    session.set_model("planner", role="plan")
    session.append(treering.assistant("hi"))


def test_models_are_set_by_role(backend: Backend) -> None:
    """The one that answers stays, also on the card; a branch from before does not know later ones."""
    session = backend.store().session("s")
    in_roles(session)
    assert session.settings == {**BIG, "models": MODELS}
    assert (session.info.model, session.info.provider) == ("big", "q")
    kill(session)
    with backend.store().session("s") as session:
        assert session.settings == {**BIG, "models": MODELS}
        session.checkout(session.path()[1])
        assert session.settings == {"models": {"smol": "p/fast"}}


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("omp", {"models": {"default": "q/big", **MODELS}}),
        ("pi", {"model": {"provider": "q", "modelId": "big"}}),
        ("operator", {"model_id": "big", "provider_id": "q"}),
        ("kit", {"model_id": "big", "provider": "q"}),
        ("evva", BIG),
    ],
)
def test_an_export_has_the_models_that_the_program_knows(
    program: str, expected: dict[str, object], tmp_path: Path
) -> None:
    """oh-my-pi all of them; others the one that answers, which no other role changes."""
    with treering.open(str(tmp_path / "store")) as store:
        with store.session("s") as session:
            in_roles(session)
        done = export(store.view("s"), tmp_path / "x", format=program)
        assert (done.same_context, done.left_out) == (True, [])
        file = read(tmp_path / "x", format=program)
        state = file.context(file.leaf).state
        assert {name: state[name] for name in expected} == expected


def test_a_buffered_model_of_a_role_leaves_the_models_of_others(backend: Backend) -> None:
    """It is recorded behind what another writer chose meanwhile, and says so."""
    store = backend.store()
    store.session("s", shared=True).append("hello")
    session = store.session("s", shared=True, durability="turn")
    session.set_model("fast", provider="p", role="smol")
    with store.session("s", shared=True) as other:
        other.set_model("big", provider="q")
        other.set_model("planner", role="plan")
    session.refresh()
    session.commit([treering.assistant("hi")])
    for settings in (session.settings, backend.store().view("s").settings):
        assert settings == {**BIG, "models": MODELS}


def test_a_session_of_omp_goes_on_with_roles(tmp_path: Path) -> None:
    """Under its own policy the default model is not chosen by a change of another one."""
    with treering.open(str(tmp_path / "store")) as store, store.session("s", policy="omp") as session:
        session.append("hello")
        session.set_model("fast", provider="p", role="smol")
        assert session.settings["models"] == {"smol": "p/fast"}


def test_names_of_models_are_redacted_by_role(tmp_path: Path) -> None:
    """As all that is stored."""
    with treering.open(str(tmp_path / "store"), redactor=lambda text: text.replace("secret", "-")) as store:
        with store.session("s") as session:
            session.set_model("secret-model", role="smol")
        assert store.view("s").settings == {"models": {"smol": "--model"}}
