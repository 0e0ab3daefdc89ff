"""``wp.examples``: where Warp's wheel has meshes and volumes for its examples, which diffkern's has not."""

from __future__ import annotations

from diffkern.warp.absent_modules import named

__getattr__ = named(
    __name__, "", "get_asset_directory get_source_directory", "give the path of the file that is to be read"
)
