"""What operators do: decide about agents and deliveries, audited."""
