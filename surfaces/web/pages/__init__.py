"""A file for each page, and what all of them share: the frame, and the parts they are made of."""
