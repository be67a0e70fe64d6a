"""The decoder's Triton kernels, one per file. Most files also have the function that launches the kernel.

A kernel runs as a grid of programs. Its docstring states the axes of the grid as ``Program (...)``, and the
tensors that one program reads and writes. Names in kernels:

- ``x_at``: the address of the first value of tensor x.
- ``k_b``, ``k_h``, ``k_s``, ``k_l``: the strides of tensor k between sequences, KV heads, slots and layers,
  in values.
- Names in capital letters: sizes that are known when the kernel is compiled. Sizes of tiles are powers of
  two.
- ``pair``: the number of a sequence and KV head, ``sequence * HEADS + head``.
- ``row``: a new token of a query head. The rows of a KV head, ``[group x queries]``, are those of all query
  heads that share it.

``tests/validate/decoder/interpreted.py`` compares every kernel with plain torch, without a GPU. ``make test``
runs one of these checks, and ``make test-slow`` runs all of them and compiles the kernels.
"""
