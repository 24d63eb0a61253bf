"""The operators' console under ``/console``: pages made on the server, for people who sign in at the issuer.

``shell`` is what a page is written with; ``pages`` holds them.
"""
