"""Markdown -> Page: what a page executes and claims, and what it must not leave unproven."""
