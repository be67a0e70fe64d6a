"""The decoder's Triton kernels, each in a file with the function that launches it.

A kernel runs as a grid of programs. Its docstring gives the grid as ``Program (...)``, with one entry per
axis, and says what one program reads and writes. Names in kernels:

- ``x_at``: address of the first value of tensor x.
- ``k_b``, ``k_h``, ``k_s``: strides of k between sequences, KV heads and slots (``k_l``: layers), in values.
- Capital letters: sizes that are known when the kernel is compiled. Sizes of tiles are powers of two.
- ``pair``: number of a sequence and a KV head, ``sequence * HEADS + head``.
- Rows of attention: the new tokens of all query heads that share a KV head, ``[group x queries]``.
"""
