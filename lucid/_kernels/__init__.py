"""CPU kernels. `_vec` owns the provider table; the other modules hold one operation each."""
