"""Judge pages by the records of their steps, and write the verdicts to the ledger."""
