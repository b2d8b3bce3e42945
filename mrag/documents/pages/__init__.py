"""The pages of a PDF file: from letters with places to blocks of text in reading order."""
