"""Making and checking published results, and fetching newer ones."""
