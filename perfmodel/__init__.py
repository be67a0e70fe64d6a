"""A roofline model of LLM speculative decoding with sparse-KV drafts."""
