"""Benchmarks tracked by airspeed velocity. Each peer is a parameter beside lucid."""
