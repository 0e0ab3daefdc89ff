"""Objects that find points of space by place: they live on the host, and kernels know them by an id."""
