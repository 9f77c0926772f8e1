"""What `peers.py` compares: cases, libraries, the limits of memory, and how it shows them."""
