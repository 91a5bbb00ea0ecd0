"""How the cost of matching a publication grows with the number of subscriptions."""
