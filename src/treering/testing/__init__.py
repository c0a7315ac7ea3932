"""Tests that other people's code can inherit. Needs pytest and hypothesis, which treering itself does not install."""
