"""Pages and records -> verdicts, and the ledger of them."""
