"""``warp.sim``, which Warp no longer has: importing it says what programs take in its place."""

raise ModuleNotFoundError(
    f"{__name__}: Warp has had no sim since 1.10; take the package Newton, which runs on diffkern.warp",
    name=__name__,
)
