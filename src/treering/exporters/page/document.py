"""The document around the data of a page.

Its Content-Security-Policy allows one script, by its hash, and no loads: neither from the network nor from the disk.
The data of the session are in blocks, see `treering.exporters.page.blocks`. Only the viewer shows them, and it makes no
elements from text.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

from treering.viewer import assets
from treering.viewer.bundle import script

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="treering">
<title>Treering</title>
<link rel="icon" href="data:image/svg+xml;base64,{icon}">
<style>{style}</style>
"""
_BODY = """</head>
<body>
<noscript><p>This page shows a session by a script of its own; please allow it.</p></noscript>
<script>{script}</script>
</body>
</html>
"""


def head() -> bytes:
    """Return the document up to its first block."""
    style = assets()["viewer.css"].data.decode()
    policy = (
        f"default-src 'none'; script-src {_source(script())}; style-src {_source(style)}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    icon = b64encode(assets()["icon.svg"].data).decode()
    return _HEAD.format(policy=policy, icon=icon, style=style).encode()


def foot() -> bytes:
    """Return the document after its last block."""
    return _BODY.format(script=script()).encode()


def _source(text: str) -> str:
    """Return the name of an inline script or style in a Content-Security-Policy."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
