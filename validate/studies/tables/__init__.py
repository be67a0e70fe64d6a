"""The tables of the accuracy pages: for each the header and the rows, from the accuracy record."""
