"""Standalone HTML pages: of text, tables and figures, and of fitted models."""

from clusterica.report._advice import advise
from clusterica.report._model_page import model_page
from clusterica.report._page import Page, png_bytes
from clusterica.report._summary import summarize

__all__ = ["Page", "advise", "model_page", "png_bytes", "summarize"]
