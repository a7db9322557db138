"""The checks that `diagnose` runs, with a module for each subject."""
