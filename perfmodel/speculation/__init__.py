"""Speculation: acceptance, chains, trees and two levels of drafts, memory, and the uncertainty of a
speedup.
"""
