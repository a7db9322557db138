"""A graph as values, and the facts about it."""
