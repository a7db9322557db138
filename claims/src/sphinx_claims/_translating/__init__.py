"""Translations: is a translated sentence still the one that was proven?"""
