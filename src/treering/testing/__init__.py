"""Tests that other packages can inherit. Needs pytest and hypothesis, which treering itself does not install."""
