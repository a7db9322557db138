"""Draw a traced graph as a picture, page or text, and decide what these show."""
