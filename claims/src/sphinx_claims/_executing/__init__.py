"""Execute the steps of pages, each page in a separate process, and return their records.

A step is a cell, an example or an expression in a sentence. Its record has its outputs and checks.
"""
