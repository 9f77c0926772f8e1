"""CPU kernels: one module for each operation's array calls, over the table that `provider` owns."""
