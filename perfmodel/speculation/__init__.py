"""Speculation: acceptance, chains, trees and two levels of drafts, what fits in memory, and how sure a
speedup is.
"""
