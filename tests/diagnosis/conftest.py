"""Keep pytest from collecting the scripts of users: the tests run them under a recording."""

collect_ignore = ["near_misses"]
