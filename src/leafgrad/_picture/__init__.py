"""Pictures, pages and texts of a traced graph, and the decision what they show."""
