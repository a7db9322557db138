"""What users pass: outputs, tensors with their names, modules."""
