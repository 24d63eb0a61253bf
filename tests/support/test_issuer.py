"""The tests' own issuer serves what it signs with."""

from joserfc import jws
from joserfc.jwk import ECKey

from tests.support.issuer import TestIssuer


async def test_issuer_serves_the_keys_that_its_tokens_verify_with() -> None:
    """A minted token verifies with the published key and not with the one that follows a rotation."""
    async with TestIssuer() as issuer:
        token = issuer.mint()
        published = ECKey.import_key(issuer.jwks()["keys"][0])
        assert not published.is_private
        assert b'"sub":"alice"' in (jws.deserialize_compact(token, published, ["ES256"]).payload or b"")
        issuer.rotate()
        assert published.kid not in {key["kid"] for key in issuer.jwks()["keys"]}
