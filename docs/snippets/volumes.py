import numpy as np

import diffkern as dk


@dk.kernel
def distances(volume: dk.uint64, x: dk.array(dtype=dk.vec3), d: dk.array(dtype=float)):
    i = dk.tid()
    place = dk.volume_world_to_index(volume, x[i])
    d[i] = dk.volume_sample_f(volume, place, dk.Volume.LINEAR)


# Signed distances to a sphere of radius 1, where they are small; 0.3 elsewhere.
voxels = np.stack(np.meshgrid(*[np.arange(-15, 16)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
signed = np.linalg.norm(0.1 * voxels, axis=1) - 1.0
band = np.abs(signed) < 0.3
points = dk.array(voxels[band].astype(np.int32), dtype=dk.vec3i)
volume = dk.Volume.allocate_by_tiles(points, voxel_size=0.1, bg_value=0.3, requires_grad=True)


@dk.kernel
def fill(volume: dk.uint64, at: dk.array(dtype=dk.vec3i), values: dk.array(dtype=float)):
    i = dk.tid()
    p = at[i]
    dk.volume_store_f(volume, p[0], p[1], p[2], values[i])


dk.launch(fill, dim=points.size, inputs=[volume.id, points, dk.array(signed[band].astype(np.float32))])

x = dk.array(np.float32([[0.03, 0.06, 1.15], [5.0, 0.0, 0.0]]), dtype=dk.vec3, requires_grad=True)
d = dk.zeros(2, requires_grad=True)
with dk.Tape() as tape:
    dk.launch(distances, dim=2, inputs=[volume.id, x], outputs=[d])
tape.backward(grads={d: np.ones(2, np.float32)})

print(volume)
print(np.round(d.numpy(), 3))
print(np.round(x.grad.numpy(), 3))
print("values that matter:", np.count_nonzero(volume.values.grad.numpy()))
