"""A tenant's submissions as a file of any size."""
