"""IR to LLVM: the scalar spelling of every operation, memory, control flow, the thread loop, and the compiler itself."""
