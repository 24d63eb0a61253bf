"""How long what people wrote is kept, and its erasure: by age, and when a person asks for it."""
