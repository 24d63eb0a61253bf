"""The demonstration: an identity issuer, two specialists and a relay, all real, on one machine."""
