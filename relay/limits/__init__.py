"""How many requests an owner, a client and an address may make a minute."""
