"""Tests of the library: a package, or another one of this name that is installed comes first."""
