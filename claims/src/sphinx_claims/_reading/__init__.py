"""Read Markdown files into `Page` objects: what they execute and claim, and their mistakes."""
