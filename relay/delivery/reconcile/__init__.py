"""Reading back what specialists keep: due checks are claimed, one list settles all that are due of its owner."""
