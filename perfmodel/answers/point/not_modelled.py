"""What a server may have that no answer counts, by name (docs/limits.md)."""

NOT_MODELLED = (
    "LoRA adapters",
    "structured output (grammars)",
    "vision and audio encoders",
    "kinds of draft that take turns (MTP, then n-gram)",
)
