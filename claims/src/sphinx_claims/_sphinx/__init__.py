"""The Sphinx extension: judged pages as a site."""
