"""DiffTaichi's simulators that are not ported, with reasons and plans."""

REASONS: dict[str, str] = {
    "diffmpm": "not ported yet: diffmpm_simple with actuators, a fluid and one grid that dk.checkpoint fills again",
    "diffmpm3d": "not ported yet: as diffmpm, with svd3 for the polar decomposition",
    "liquid": "not ported yet: as diffmpm3d",
    "volume_renderer": "not ported yet: a ray for each pixel and seven views",
    "water_renderer": "its loss is a VGG16 network whose weights are elsewhere; its waves are those of wave",
}
