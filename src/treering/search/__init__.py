"""Search over the prompts and texts of all sessions of a store: a local index that can be rebuilt at any time."""

from treering.search.find import Filters, Hit
from treering.search.index import Index, forget, open_index
from treering.search.update import Updated, UpdateProgress

__all__ = ["Filters", "Hit", "Index", "UpdateProgress", "Updated", "forget", "open_index"]
