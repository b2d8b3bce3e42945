"""A question's way, in its order: retrieve, fuse, synopsis, select, evidence, verify, generate."""
