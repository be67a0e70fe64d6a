"""A real small model: byte-level, Llama-shaped, trained on sources that every Python installation has."""
