"""What every report is made of: cards, tables, units, markup, pages."""
