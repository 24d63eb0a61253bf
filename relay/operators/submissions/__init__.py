"""What operators see of their tenant's submissions, and what they do about them."""
