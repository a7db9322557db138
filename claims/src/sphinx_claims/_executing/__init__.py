"""Execute the steps of pages, each page in a separate process, and return their records."""
