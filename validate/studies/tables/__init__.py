"""The tables of the accuracy pages. Each table is a header and rows, made from the accuracy record."""
