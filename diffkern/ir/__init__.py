"""The typed structured SSA intermediate representation: a grammar, its builder, walker, verifier and printer."""
