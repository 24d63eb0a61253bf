"""How ratings fare: counts, up share, time to saved and reasons of failures, of one's own or of a tenant's."""
