"""The page that shows sessions in a browser. Servers send its files one by one; an export joins them into one file."""

from treering.viewer.assets import HTML, INDEX, Asset, assets

__all__ = ["HTML", "INDEX", "Asset", "assets"]
