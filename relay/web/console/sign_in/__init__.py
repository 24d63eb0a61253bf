"""Signing in at the issuer: OpenID Connect's authorization code flow with PKCE (RFC 6749, RFC 7636, RFC 9207)."""
