"""The arithmetic of truncated series ``[K, *shape]``: products, recurrences, fused layers."""
