"""Leave the scripts of users alone: a test runs each of them, under a recording."""

collect_ignore = ["near_misses"]
