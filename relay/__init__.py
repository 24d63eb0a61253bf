"""The specialist feedback relay: carries a rating to the specialist whose run earned it, once."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("feedback-relay")
except PackageNotFoundError:  # a checkout that was never installed
    __version__ = "0+unknown"
