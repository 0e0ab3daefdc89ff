"""IR to LLVM: scalar operations, memory, control flow, the loop over threads, and the compiler itself."""
