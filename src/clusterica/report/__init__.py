"""A standalone HTML page of text, tables and figures."""

from clusterica.report._page import Page, png_bytes

__all__ = ["Page", "png_bytes"]
