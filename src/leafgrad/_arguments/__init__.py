"""Read the arguments of public functions: outputs, named tensors and modules."""
