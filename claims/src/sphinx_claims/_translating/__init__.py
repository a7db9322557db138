"""Check translations: whether a translated sentence says what was proven."""
