"""`higher_order_grad`, `laplacian`, `taylor_rule`: derivatives of any order."""
