"""A session as one HTML file: the viewer with the data inside, which opens from a disk and needs no server."""

from treering.exporters.page.export import ExportedPage, export_page, page_parts

__all__ = ["ExportedPage", "export_page", "page_parts"]
