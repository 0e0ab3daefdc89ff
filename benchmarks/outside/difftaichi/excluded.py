"""DiffTaichi's simulators that are not ported, with reasons."""

REASONS: dict[str, str] = {
    "water_renderer": "its loss is a VGG16 network, published without weights; its waves are those of wave",
}
