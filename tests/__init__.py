"""Tests of the library. This file makes `tests` a package, so that no installed one is used."""
