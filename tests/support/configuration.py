"""Configuration files for tests: a minimal one, and pieces to append to it."""

MINIMAL = """\
[server]
public_url = "https://relay.example.org"

[database]
url = "sqlite:///relay.db"

[owners]
pepper_file = "secrets/pepper"
sealing_key_file = "/etc/relay/sealing-key"

[[identity.issuers]]
issuer = "https://login.example.org"
audience = "https://relay.example.org"
"""

AGENT = """
[[agents]]
id = "literature"
name = "Literature specialist"
origin = "https://literature.example.org"
protocol = "roblox-v1"
  [[agents.credentials]]
  mode = "static_bearer"
  client_id = "workbench"
  issuer = "https://login.example.org"
  token_file = "secrets/token"
"""

CLIENT_CREDENTIALS = """
  [[agents.credentials]]
  mode = "client_credentials"
  client_id = "workbench"
  issuer = "https://login.example.org"
  token_endpoint = "https://login.example.org/token"
  key_file = "secrets/workbench.pem"
  resource = "https://literature.example.org"
"""

SECOND_ISSUER = """
[[identity.issuers]]
issuer = "https://login.example.net"
audience = "https://relay.example.org"
"""

CLIENT = """
[identity.clients.workbench]
agents = ["*"]
"""


def line_of(text: str, key: str) -> int:
    """The first line (from 1) that begins with ``key``."""
    return next(number for number, line in enumerate(text.splitlines(), start=1) if line.strip().startswith(key))
