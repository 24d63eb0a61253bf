"""How the relay proves who it is, and whom it acts for, towards a specialist."""

from registry.credentials.access import Access, Authorization
from registry.credentials.assertions import Purpose
from registry.credentials.authorizations import Authorizations
from registry.credentials.failures import CredentialFailure

__all__ = ["Access", "Authorization", "Authorizations", "CredentialFailure", "Purpose"]
