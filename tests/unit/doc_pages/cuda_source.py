import diffkern as dk


@dk.kernel
def spring_energy(x: dk.array(dtype=dk.vec3), rest: dk.array(dtype=float), energy: dk.array(dtype=float)):
    e = dk.tid()
    stretch = dk.length(x[e] - x[e + 1]) - rest[e]
    dk.atomic_add(energy, 0, 0.5 * stretch * stretch)
