"""Files become documents, documents become source units with exact character offsets; what a text states."""
