"""``warp._src.thirdparty``: what Warp has taken from other projects, as far as packages use it."""
