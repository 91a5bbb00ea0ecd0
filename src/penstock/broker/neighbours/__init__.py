"""A broker's view of the overlay, shared with its neighbours: links, trees, and filters of all hosts."""
