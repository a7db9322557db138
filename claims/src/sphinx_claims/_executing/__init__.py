"""Execute the steps of pages, each page in a separate process, and return their records.

A step is a cell, an example or an expression in a sentence. The record of a step contains its
outputs and checks.
"""
