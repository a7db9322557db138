"""The Sphinx extension, which shows judged pages as a site."""
