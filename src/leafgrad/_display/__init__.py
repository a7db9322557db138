"""Building blocks of all reports: cards, tables, units, markup and pages."""
