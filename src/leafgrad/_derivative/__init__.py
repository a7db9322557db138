"""Derivatives of any order: `higher_order_grad`, `laplacian`, `jacobian`, `taylor_rule`."""
