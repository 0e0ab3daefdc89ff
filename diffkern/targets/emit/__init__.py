"""IR to LLVM, shared by the targets: scalar operations, memory, control flow."""
