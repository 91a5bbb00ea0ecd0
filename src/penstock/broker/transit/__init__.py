"""The work of a broker between others: forwards messages, knowledge and NACKs along the trees of pubends."""
