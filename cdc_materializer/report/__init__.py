"""What the product tells people: frozen report models, how they are built, and how a terminal shows them."""
