"""Who is calling: keys, tokens, owners, scopes."""
