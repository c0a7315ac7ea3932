"""The place of a store's index: in the user's cache folder, never inside the store."""

from __future__ import annotations

import hashlib
import os

from treering.store.place import Place


def default_path(place: Place) -> str | None:
    """Return the path of the index of a store and namespace; None for a store without a permanent address.

    Stores in memory end with the process, and so do their indexes. A filesystem object has no address that another
    process could use.
    """
    if place.address is None:
        return None
    import platformdirs

    name = hashlib.sha256(f"{place.address}\n{place.prefix}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return os.path.join(platformdirs.user_cache_dir("treering", appauthor=False), "search", f"{name}.sqlite")
