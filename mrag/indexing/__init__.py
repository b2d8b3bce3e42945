"""M-RAG III-B in its order: what is new, tagged units, markers, coverage, and the keys that are searched."""
