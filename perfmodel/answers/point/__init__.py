"""One point: does speculation pay there, why, and from which context, acceptance or batch?"""
