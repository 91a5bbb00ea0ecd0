"""What a broker does between others: passes messages, knowledge and doubt along the trees of pubends."""
