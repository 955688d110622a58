"""The inline carrier under the name that documents use; it lives in `carriers.inline`."""

from .carriers.inline import Endless, Inline

__all__ = ["Endless", "Inline"]
