"""What a broker knows of the overlay and tells its neighbours: links, trees, and filters of all hosts."""
