"""The page of a machine: predicted beside measured, in Markdown and pictures."""
