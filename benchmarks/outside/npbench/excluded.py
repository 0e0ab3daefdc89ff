"""Programs of NPBench that are not ported, with reasons and plans."""

REASONS: dict[str, str] = {
    "cavity_flow": "not ported yet: kernels as in fdtd_2d, the pressure in two arrays in turn",
    "channel_flow": "not ported yet: as cavity_flow, with a loop until the flow is steady (dk.capture_while)",
    "cholesky2": "calls LAPACK for a matrix of 1000 rows: planned as blocks of tiles (tile_cholesky, tile_lower_solve)",
    "contour_integral": "solves complex systems: planned as an elimination with pivots, a thread for each point",
    "conv2d_bias": "not ported yet: a sum over a window for each output, in float32",
    "lenet": "not ported yet: conv2d_bias, maxima over windows, three products",
    "mlp": "not ported yet: three products of few rows with large matrices",
    "resnet": "not ported yet: conv2d_bias and normalization over the batch",
    "scattering_self_energies": "not ported yet: sums of products of small complex matrices over six indices",
    "softmax": "not ported yet: a row for each thread, in float32",
}
