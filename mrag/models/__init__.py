"""The models behind their two seams: a language model that completes, an encoder that embeds."""
