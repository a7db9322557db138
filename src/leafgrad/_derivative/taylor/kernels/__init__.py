"""The arithmetic of truncated series: products, recurrences, fused layers."""
