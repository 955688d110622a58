"""An authority in a state directory that decides in C."""

from contextlib import suppress
from pathlib import Path

from ..engine.native_engine import NativeAuthority
from ..journal import private
from ..journal.state_files import IMAGE
from .local import Office


class NativeOffice(Office):
    """As `Office`, with the hot actions in C.

    What C knows lies beside the journal between a good end and the next start. Without it, or with
    a damaged or an old one, C learns every issue from the state.
    """

    boundary = "native"
    authority: NativeAuthority

    def close(self) -> None:
        if self._wrote and not self.authority.has_failed:
            image = self.authority.image()
            with suppress(OSError):  # it only saves the next start some time
                private.write(self._image_path.with_suffix(".new"), image or b"")
                self._image_path.with_suffix(".new").replace(self._image_path)
        super().close()

    def _authority(self) -> NativeAuthority:
        image = None
        with suppress(OSError):
            image = self._image_path.read_bytes()
        return NativeAuthority(self.journal, image=image)

    @property
    def _image_path(self) -> Path:
        return self.state_dir / IMAGE
